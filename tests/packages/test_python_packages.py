"""The wheel of the program and the Python module, installed by pip from nothing.

Each machine is a bare Debian without a network (debootstrap), which finds torch and what compiles
the module in a folder of wheels.
"""

import platform
import re
import shutil
import sys

import pytest

from .machine import PACKAGES, ROOT, VERSION, bare_debian, offline, run, the

pytestmark = pytest.mark.timeout(1800)

PIP = ("/srv/venv/bin/pip", "--disable-pip-version-check")
INSTALL = (*PIP, "install", "--no-index", "--find-links", "/srv/wheels")


def with_environment(root):
    """The machine with an empty virtual environment and the packages."""
    offline(root, "python3", "-m", "venv", "/srv/venv")
    shutil.copytree(PACKAGES, root / "srv" / "packages")
    return root


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Has Python and no compiler."""
    with bare_debian(tmp_path_factory.mktemp("python") / "root", "python3-venv") as root:
        yield with_environment(root)


def test_the_wheel_is_installed_and_runs_on_a_bare_debian(bare):
    wheel = the("atp_program-*.whl")
    foreign = wheel.name.replace(platform.machine(), "s390x")
    shutil.copy(wheel, bare / "srv" / foreign)
    with pytest.raises(AssertionError, match="is not a supported wheel on this platform"):
        offline(bare, *INSTALL, f"/srv/{foreign}")
    before = files(bare)

    offline(bare, *INSTALL, f"/srv/packages/{wheel.name}")
    assert offline(bare, "/srv/venv/bin/atp", "--version").startswith(f"atp {VERSION} ")
    page = bare / "srv/venv/share/man/man1/atp-switch.1.gz"
    assert page.exists()

    for folder in ("clusters", "models"):
        shutil.copytree(ROOT / "examples" / folder, bare / "srv" / folder)
    files_of_plan = ["--cluster", "clusters/flat-8.yaml", "--model", "models/gpt2-medium.json"]
    plan = ["plan", "best", *files_of_plan, "--ranks", "8"]
    expected = run(ROOT / "build/package/bin/atp", *plan, cwd=ROOT / "examples")
    assert "mesh" in expected and in_environment(bare, "atp", *plan) == expected

    topology = bare / "srv" / "topo.txt"
    topology.write_text("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n")
    assert "kind: switch" in in_environment(bare, "atp", "plan", "import", "topo.txt")
    topology.unlink()

    ranks = ["atp", "run", "-n", "2", "--switch", "--", "atp", "bench", "allreduce"]
    summed = in_environment(bare, *ranks, "-b", "64K", "-e", "64K", "-n", "2", "-w", "1")
    assert "0 OK" in summed

    offline(bare, *PIP, "uninstall", "--yes", "atp-program")
    for folder in ("clusters", "models"):
        shutil.rmtree(bare / "srv" / folder)
    assert files(bare) == before


def files(root):
    return {path for path in (root / "srv").rglob("*") if not path.is_dir()}


def in_environment(root, *command):
    activated = '. /srv/venv/bin/activate; cd /srv; exec "$@"'
    return offline(root, "bash", "-c", activated, "bash", *command)


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory):
    """Has a compiler, and the torch of tools/setup."""
    torch = re.search(r"^torch_pin=(.+)", (ROOT / "tools/setup").read_text(), re.MULTILINE)[1]
    builder = re.search(r'requires = \["(.+)"\]', (ROOT / "pyproject.toml").read_text())[1]
    numpy = re.search(r"^numpy==.+", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)[0]
    packages = "python3-venv,python3-dev,g++,ccache"
    with bare_debian(tmp_path_factory.mktemp("torch") / "root", packages) as root:
        # That of Debian 12, whatever the Python of the tests is.
        wheels = ["--python-version", "3.11", "--only-binary", ":all:"]
        tools = ("cmake==4.4.5", "ninja==1.13.2")  # scikit-build-core takes them from there
        wheels += ["--dest", root / "srv/wheels", torch, numpy, builder, *tools]
        run(sys.executable, "-m", "pip", "download", "--quiet", *wheels)
        with_environment(root)
        offline(root, *INSTALL, torch, numpy)
        offline(root, *INSTALL, f"/srv/packages/{the('atp_program-*.whl').name}")
        yield root


SUM = """
import torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
tensor = torch.full((100_000,), dist.get_rank() + 1.0)
dist.all_reduce(tensor)
assert (tensor == 3).all()
if dist.get_rank() == 0:
    print(atp.torch.stats()["algorithm"], atp.__file__)
dist.destroy_process_group()
"""


def check_sums(root):
    """The installed module over a ring, in shared memory, and through a switch."""
    (root / "srv/sum.py").write_text(SUM)
    installed = "/srv/venv/lib/python3.11/site-packages/atp/__init__.py"
    ring = ["env", "ATP_ALGORITHM=ring", "ATP_HOST_MEMORY=0"]
    ranks = ["torchrun", "--nnodes", "1", "--nproc-per-node", "2", "sum.py"]
    assert installed in in_environment(root, *ring, *ranks)
    assert installed in in_environment(root, *ranks)
    switch = ["env", "ATP_HOST_MEMORY=0", "atp", "run", "-n", "2", "--switch", "--"]
    assert installed in in_environment(root, *switch, "python", "sum.py")


def compiled(root, source):
    """Installs it without what an earlier test has installed, and returns what changed."""
    before = set(offline(root, *PIP, "freeze").splitlines())
    offline(root, *INSTALL, "--force-reinstall", "--no-deps", source)
    return set(offline(root, *PIP, "freeze").splitlines()) - before


def test_pip_compiles_the_source_package_which_sums(with_torch):
    package = f"/srv/packages/{the('atp-*.tar.gz').name}"
    (added,) = compiled(with_torch, package)
    assert added.startswith("atp")
    check_sums(with_torch)


def test_pip_compiles_a_checkout_which_sums(with_torch):
    """It is as deep in the folders as what pip unpacks, so that ccache knows its objects."""
    offline(with_torch, *PIP, "uninstall", "--yes", "atp")
    checkout = with_torch / "tmp" / "checkout"
    names = run("git", "ls-files", cwd=ROOT).splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    (added,) = compiled(with_torch, "/tmp/checkout")
    assert added.startswith("atp")
    check_sums(with_torch)
