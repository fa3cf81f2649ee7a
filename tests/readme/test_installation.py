"""`pip install` of docs/use/getting-started.md, in an environment with only what the page asks for.

The packages are lent by the environment that runs the tests, so nothing is downloaded; ccache, if
it is there, lends the object files of the build before, and the whole test takes half a minute.
"""

import importlib.metadata as metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.timeout(1800)  # without ccache it compiles everything

REPOSITORY = Path(__file__).resolve().parents[2]
GUIDE = (REPOSITORY / "docs" / "use" / "getting-started.md").read_text()
INSTALL = "pip install ."
# Borrowed packages cannot be fetched into an isolated environment; tests/packages tests that.
WITHOUT_FETCHING = "pip install --no-build-isolation ."
ATP = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release")).resolve() / "bin" / "atp"
ASKED_FOR = ("torch", "scikit-build-core")
FETCHED_BY_PIP = ("numpy",)  # pyproject.toml asks for it, so the user need not

# The extension is compiled against the headers beside torch.__file__. Under the lender's path
# ccache recognizes what it has compiled against them before.
LEND_TORCH = """
import importlib.machinery, sys
class Lender:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            return importlib.machinery.PathFinder.find_spec(name, [{site!r}])
sys.meta_path.insert(0, Lender)
"""
SUM = """
import atp, atp.torch, torch, torch.distributed as dist
dist.init_process_group("atp")
tensor = torch.full((1000,), dist.get_rank() + 1.0)
dist.all_reduce(tensor)
assert tensor.eq(3).all()
print(dist.get_backend(), atp.__file__)
dist.destroy_process_group()
"""


def with_dependencies(names):
    """The distributions of these names and all that they need to run."""
    found, waiting = {}, list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        found[name] = metadata.distribution(name)
        for text in found[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found.values()


def lend(distribution, site):
    for top in {path.parts[0] for path in distribution.files if path.parts[0] != ".."}:
        if top != "__pycache__" and not (site / top).exists():
            (site / top).symlink_to(distribution.locate_file(top).resolve())


class Environment:
    def __init__(self, folder):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.bin = folder / "bin"
        scheme = {"base": str(folder), "platbase": str(folder)}
        self.site = Path(sysconfig.get_path("purelib", "venv", scheme))
        for distribution in with_dependencies(ASKED_FOR + FETCHED_BY_PIP):
            lend(distribution, self.site)
        torch = str(metadata.distribution("torch").locate_file(""))
        (self.site / "lend_torch.py").write_text(LEND_TORCH.format(site=torch))
        (self.site / "lend_torch.pth").write_text("import lend_torch\n")

    def run(self, command, seconds, **variables):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ATP_"))}
        done = subprocess.run(
            ["bash", "-c", command],
            env={**kept, "PATH": f"{self.bin}:{os.environ['PATH']}", **variables},
            cwd=REPOSITORY if "install" in command else self.bin,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment in which the page's command has run."""
    environment = Environment(tmp_path_factory.mktemp("installation") / "venv")
    offline = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    # Under the names by which CMake finds the compilers: ccache distinguishes g++ from c++.
    compilers = {"CC": "cc", "CXX": "c++"}
    environment.run(WITHOUT_FETCHING, 900, **offline, **compilers)
    return environment


def test_the_page_says_what_is_done_here():
    assert f"`{INSTALL}`" in GUIDE


def test_the_torch_that_pips_isolated_build_hides_is_found(tmp_path):
    """pip hides what is installed, with a sitecustomize.py in PYTHONPATH; this one hides torch."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    hidden = {**os.environ, "PYTHONPATH": str(tmp_path)}
    imported = subprocess.run(
        [sys.executable, "-c", "import torch"], env=hidden, text=True, stderr=-1
    )
    assert "ModuleNotFoundError" in imported.stderr
    as_pip = ["-DSKBUILD=2", f"-DPython_EXECUTABLE={sys.executable}"]
    configure = ["cmake", "-S", REPOSITORY, "-B", tmp_path / "build", "-G", "Ninja", *as_pip]
    done = subprocess.run(configure, env=hidden, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_planner_is_installed(installed):
    assert installed.run("python -c 'import atp.planner; print(atp.planner.__name__)'", 60)


def test_the_program_is_not_installed_as_it_is_another_package(installed):
    assert not (installed.bin / "atp").exists()


def test_two_ranks_sum_with_the_installed_module(installed):
    script = installed.bin / "sum.py"
    script.write_text(SUM)
    said = installed.run(f"{ATP} run -n 2 -- python {script}", 120)
    assert said.splitlines() == [f"atp {installed.site}/atp/__init__.py"] * 2
