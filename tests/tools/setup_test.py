"""tools/setup on made-up machines: a PATH of stubs decides what is installed and who asks.

The Python is a real one, but its `venv`, `pip` and `torch` are ours: they take no time and no
network, and write down what they were told.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.requirements import privileged

ROOT = Path(__file__).parents[2]
REAL_TOOLS = (
    *("awk", "bash", "c++", "cat", "cmake", "dirname", "echo", "env", "grep", "ln", "ninja", "rm"),
    *("realpath", "sort", "stat", "tee", "xargs"),
)
DF = """#!/bin/sh
echo "Filesystem 1048576-blocks Used Available Capacity Mounted on"
echo "disk 100000 1 ${FREE_MIB:-90000} 1% /"
"""

DPKG_QUERY = """#!/bin/sh
shift 3  # -W -f FORMAT
for package; do
  case " $MISSING " in *" $package "*) ;; *) echo "$package installed" ;; esac
done
"""
LOGGED = """#!/bin/sh
echo "{name} $*" >>"$LOG"
{then}
"""
VENV = """
import os, pathlib, sys
open(os.environ["LOG"], "a").write("venv " + " ".join(sys.argv[1:]) + "\\n")
folder = pathlib.Path(sys.argv[-1])
version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
(folder / "lib" / version / "site-packages").mkdir(parents=True)
(folder / "bin").mkdir()
(folder / "bin" / "python").symlink_to(sys.executable)
home = pathlib.Path(sys.executable).parent
(folder / "bin" / "activate").write_text(f"VIRTUAL_ENV={folder.absolute()}\\n")
(folder / "pyvenv.cfg").write_text(f"home = {home}\\ninclude-system-site-packages = false\\n")
"""
PIP = """
import json, os, pathlib, sys, sysconfig
if "--dry-run" in sys.argv:
    packages = ["torch", *os.environ.get("TORCH_BRINGS", "").split()]
    print(json.dumps({"install": [{"metadata": {"name": name}} for name in packages]}, indent=2))
    sys.exit()
open(os.environ["LOG"], "a").write("pip " + " ".join(sys.argv[1:]) + "\\n")
if os.environ.get("PIP_FAILS"):
    sys.exit(os.environ["PIP_FAILS"])
wanted = sys.argv[-1:]
if sys.argv[-2] == "-r":
    wanted = [line for line in pathlib.Path(sys.argv[-1]).read_text().split() if "==" in line]
for name, version in (pin.split("==") for pin in wanted):
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    info = pathlib.Path(sysconfig.get_path("purelib"), folder)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
"""
TORCH = """
import importlib.metadata as metadata, os
try:
    __version__ = os.environ.get("LENT_TORCH") or metadata.version("torch")
except metadata.PackageNotFoundError:
    raise ImportError("no torch")
"""


class Machine:
    """What it contains, and what has been done to it."""

    def __init__(self, folder):
        self.checkout = folder / "checkout"
        self.stubs = folder / "bin"
        self.modules = folder / "modules"
        self.log = folder / "log"
        self.missing = ""
        for new in (self.stubs, self.modules, self.checkout / "tools", self.checkout / "python"):
            new.mkdir(parents=True)
        shutil.copy(ROOT / "tools" / "setup", self.checkout / "tools" / "setup")
        shutil.copy(ROOT / "requirements-dev.txt", self.checkout)
        for tool in REAL_TOOLS:
            (self.stubs / tool).symlink_to(shutil.which(tool))
        self.add_tool("dpkg-query", DPKG_QUERY)
        self.add_tool("df", DF)
        self.add_tool("apt-get", LOGGED.format(name="apt-get", then=""))
        self.add_user(0)
        (self.stubs / "python3").symlink_to(os.path.realpath(sys.executable))
        for name, text in (("venv", VENV), ("pip", PIP)):
            (self.modules / name).mkdir()
            (self.modules / name / "__init__.py").touch()
            (self.modules / name / "__main__.py").write_text(text)
        (self.modules / "torch.py").write_text(TORCH)

    def add_tool(self, name, script):
        (self.stubs / name).unlink(missing_ok=True)  # it may lead to the real one
        (self.stubs / name).write_text(script)
        (self.stubs / name).chmod(0o755)

    def add_user(self, number):
        self.add_tool("id", f"#!/bin/sh\necho {number}\n")

    def add_sudo(self):
        self.add_tool("sudo", LOGGED.format(name="sudo", then='exec "$@"'))

    def setup(self, *arguments, inside=(), **environment):
        self.log.write_text("")
        return subprocess.run(
            [*inside, self.checkout / "tools" / "setup", *arguments],
            env={
                "PATH": str(self.stubs),
                "PYTHONPATH": str(self.modules),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LOG": str(self.log),
                "MISSING": self.missing,
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=60,
        )

    def done(self):
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def lines_of(text):
    return [line.strip() for line in text.splitlines()]


def test_a_machine_with_everything_is_left_alone(machine):
    assert machine.setup().returncode == 0
    again = machine.setup()
    assert again.returncode == 0, again.stderr
    assert again.stdout == "setup: everything is in place\n"
    assert machine.done() == []


def test_root_installs_what_is_missing_and_says_what_for(machine):
    machine.missing = "cmake ninja-build"
    result = machine.setup()
    assert result.returncode == 0, result.stderr
    said = [line.split() for line in lines_of(result.stdout)]
    assert ["cmake", "build"] in said
    assert ["ninja-build", "build"] in said
    update, install = machine.done()[:2]
    assert update.startswith("apt-get update")
    assert install.endswith("--no-install-recommends cmake ninja-build")


def test_a_user_with_sudo_installs_through_sudo(machine):
    machine.add_user(1000)
    machine.add_sudo()
    machine.missing = "cmake"
    result = machine.setup()
    assert result.returncode == 0, result.stderr
    assert machine.done()[0] == "sudo apt-get update -qq"
    assert any(line.startswith("sudo env") and line.endswith(" cmake") for line in machine.done())


def test_a_user_without_sudo_is_told_what_an_administrator_runs(machine):
    machine.add_user(1000)
    machine.missing = "cmake ninja-build"
    result = machine.setup()
    assert result.returncode == 1
    assert "setup: packages are missing, and installing them needs root." in result.stderr
    assert "apt-get install cmake ninja-build" in lines_of(result.stderr)
    assert machine.done() == []
    assert not (machine.checkout / ".venv").exists()


def test_a_user_who_lacks_nothing_needs_no_root(machine):
    machine.add_user(1000)
    result = machine.setup()
    assert result.returncode == 0, result.stderr
    assert not any("apt-get" in line for line in machine.done())


def test_only_the_developer_needs_the_developers_packages(machine):
    machine.missing = "clang-19 clang-tidy-19"
    assert "clang" not in machine.setup().stdout
    result = machine.setup("--dev")
    assert ["clang-tidy-19", "lint"] in [line.split() for line in lines_of(result.stdout)]
    assert machine.done()[1].endswith(" clang-19 clang-tidy-19")


def test_only_the_benchmark_needs_its_peers_packages(machine):
    machine.missing = "libopenmpi-dev openmpi-bin"
    assert "openmpi" not in machine.setup("--dev").stdout
    result = machine.setup("--bench")
    assert ["openmpi-bin", "comparison", "in", "the", "benchmark"] in [
        line.split() for line in lines_of(result.stdout)
    ]
    assert machine.done()[1].endswith(" libopenmpi-dev openmpi-bin")


@pytest.mark.parametrize(
    ("apt_says", "cause"),
    [
        ("Err:1 Temporary failure resolving 'mirror'", "there is no network"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "the disk is full"),
        ("E: Unable to locate package cmake", "see the message above"),
    ],
)
def test_a_failed_installation_ends_with_its_cause_and_the_commands(machine, apt_says, cause):
    machine.missing = "cmake"
    machine.add_tool("apt-get", f'#!/bin/sh\necho "{apt_says}" >&2\nexit 100\n')
    result = machine.setup()
    assert result.returncode == 1
    assert apt_says in result.stderr
    assert f"setup: apt-get could not install the packages: {cause}." in result.stderr
    assert "apt-get install cmake" in lines_of(result.stderr)


def test_a_system_without_dpkg_is_told_which_packages_and_how_to_go_on(machine):
    (machine.stubs / "dpkg-query").unlink()
    result = machine.setup()
    assert result.returncode == 1
    assert "then run: tools/setup --no-packages" in result.stderr
    assert " cmake " in result.stderr
    assert machine.setup("--no-packages").returncode == 0


def test_a_python_without_torch_gets_a_venv_with_the_pinned_one(machine):
    result = machine.setup()
    assert result.returncode == 0, result.stderr
    assert "setup: creating .venv\n" in result.stdout
    assert "setup: installing torch==2.13.0 into .venv (large: a few minutes)" in result.stdout
    venv, torch, requirements = machine.done()
    assert venv == "venv .venv"
    assert torch.endswith("torch==2.13.0")
    assert requirements.endswith("-r requirements-dev.txt")


def test_a_torch_of_the_right_version_is_used_and_not_installed_again(machine):
    result = machine.setup(LENT_TORCH="2.13.1")
    assert "setup: creating .venv on top of the installed torch 2.13\n" in result.stdout
    assert machine.done()[0] == "venv --system-site-packages .venv"
    assert not any("torch" in line for line in machine.done())


def test_a_torch_of_another_version_is_not_used(machine):
    result = machine.setup(LENT_TORCH="2.12.0")
    assert "on top of" not in result.stdout
    assert machine.done()[0] == "venv .venv"
    assert machine.done()[1].endswith("torch==2.13.0")


def test_a_venv_whose_interpreter_is_gone_is_made_anew(machine):
    assert machine.setup().returncode == 0
    python = machine.checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/no/such/python")
    assert machine.setup().returncode == 0
    assert machine.done()[0] == "venv .venv"


def test_the_venv_of_a_checkout_that_was_moved_is_made_anew(machine):
    assert machine.setup().returncode == 0
    moved = machine.checkout.with_name("moved")
    machine.checkout.rename(moved)
    machine.checkout = moved
    assert machine.setup().returncode == 0
    assert machine.done()[0] == "venv .venv"


@pytest.mark.parametrize(
    ("pip_says", "cause"),
    [
        ("NewConnectionError: Failed to establish a new connection", "there is no network"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "SSLError: CERTIFICATE_VERIFY_FAILED",
            "this machine does not trust the certificate of the package index",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "see the message above"),
    ],
)
def test_a_pip_that_fails_ends_with_its_cause_and_two_ways_to_go_on(machine, pip_says, cause):
    result = machine.setup(PIP_FAILS=pip_says)
    assert result.returncode == 1
    assert pip_says in result.stderr
    assert f"setup: pip could not install torch: {cause}" in result.stderr
    assert "tools/setup" in lines_of(result.stderr)
    assert "PIP_NO_INDEX=1 PIP_FIND_LINKS=/folder tools/setup" in lines_of(result.stderr)


def test_a_disk_without_room_is_reported_before_anything_is_made(machine):
    result = machine.setup(FREE_MIB="100")
    assert result.returncode == 1
    assert "setup: torch in .venv needs about 2000 MiB in" in result.stderr
    assert "found 100 MiB free. Free some space, or clone to a larger disk" in result.stderr
    assert machine.done() == []


@pytest.mark.parametrize(
    ("brings", "free_mib", "problem"),
    [
        ("numpy", 2000, None),
        ("nvidia-cublas nvidia-nccl-cu13", 10000, None),
        ("nvidia-cublas nvidia-nccl-cu13", 9999, "torch with CUDA in .venv needs about 10000 MiB"),
    ],
)
def test_a_torch_with_cuda_needs_more_room(machine, brings, free_mib, problem):
    result = machine.setup(TORCH_BRINGS=brings, FREE_MIB=str(free_mib))
    assert result.returncode == (1 if problem else 0)
    if problem:
        assert problem in result.stderr
        assert f"found {free_mib} MiB free" in result.stderr
        assert "or let pip find the CPU build (PIP_FIND_LINKS=/folder, about 2000" in result.stderr
        assert not any("torch" in line for line in machine.done())


def test_a_disk_that_is_full_of_a_complete_setup_is_no_reason_to_stop(machine):
    assert machine.setup().returncode == 0
    assert machine.setup(FREE_MIB="0").returncode == 0


def test_no_compiler_ends_with_the_way_to_name_one(machine):
    (machine.stubs / "c++").unlink()
    result = machine.setup("--no-packages")
    assert result.returncode == 1
    assert "setup: no C++ compiler: c++ not found. Install g++ 12 or newer" in result.stderr
    assert "CXX=/path/to/g++ tools/setup" in lines_of(result.stderr)


def test_a_compiler_that_is_too_old_is_named(machine):
    machine.add_tool("g++-8", "#!/bin/sh\nexit 1\n")
    result = machine.setup(CXX="g++-8")
    assert result.returncode == 1
    assert "setup: g++-8 cannot compile C++20. Install g++ 12 or newer" in result.stderr


@pytest.mark.parametrize("tool", ["cmake", "ninja"])
def test_a_build_tool_that_no_package_brought_is_named(machine, tool):
    (machine.stubs / tool).unlink()
    result = machine.setup("--no-packages")
    assert result.returncode == 1
    assert f"setup: {tool} not found. Install it" in result.stderr


def test_an_older_python_is_refused_by_its_version(machine):
    machine.add_tool(
        "python3.10", '#!/bin/sh\n[ "$1" = --version ] && exec echo Python 3.10.12\nexit 1\n'
    )
    result = machine.setup("--no-packages", PYTHON="python3.10")
    assert result.returncode == 1
    assert "Python 3.11 or newer is needed, found Python 3.10.12. Choose:" in result.stderr
    assert "PYTHON=/path/to/python3.11 tools/setup" in lines_of(result.stderr)


def test_a_chosen_program_that_is_no_python_is_named_in_one_line(machine):
    machine.add_tool(
        "perl",
        '#!/bin/sh\n[ "$1" = --version ] || { echo "no script $2" >&2; exit 1; }\n'
        "echo; echo This is perl; echo; echo Copyright\n",
    )
    result = machine.setup(PYTHON="perl")
    assert result.returncode == 1
    assert "\nsetup: Python 3.11 or newer is needed, found This is perl. Choose:" in result.stderr
    assert "no script" not in result.stderr and "Copyright" not in result.stderr


def test_an_environment_that_keeps_another_python_than_the_chosen_one_is_said(machine):
    assert machine.setup(PYTHON="python3").stderr == ""
    assert machine.setup(PYTHON="python3").stderr == ""
    machine.add_tool("python3.14", "#!/bin/sh\necho Python 3.14.0 of /opt\n")
    again = machine.setup(PYTHON="python3.14")
    assert again.returncode == 0
    assert "setup: .venv keeps its Python 3." in again.stderr
    assert "rm -rf .venv && PYTHON='python3.14' tools/setup" in again.stderr


def test_a_torch_that_hides_the_one_in_venv_is_named_with_its_place(machine):
    result = machine.setup(LENT_TORCH="2.12.0")
    assert result.returncode == 1
    assert (
        ".venv has torch==2.13.0, but .venv/bin/python imports torch 2.12.0 from" in result.stderr
    )
    assert "Unset what puts that one first (PYTHONPATH?)" in result.stderr


def test_the_environment_has_the_program(machine):
    assert machine.setup().returncode == 0
    program = machine.checkout / ".venv" / "bin" / "atp"
    assert os.readlink(program) == "../../build/release/bin/atp"


def test_no_python_at_all_ends_with_a_way_to_choose_one(machine):
    (machine.stubs / "python3").unlink()
    result = machine.setup("--no-packages")
    assert result.returncode == 1
    assert "setup: Python 3.11 or newer is needed, found none. Choose:\n" in result.stderr
    assert "PYTHON=/path/to/python3.11 tools/setup" in lines_of(result.stderr)


@pytest.mark.parametrize("chosen", ["/no/such/python", "python9"])
def test_a_chosen_python_that_does_not_exist_is_named(machine, chosen):
    machine.missing = "cmake"
    result = machine.setup(PYTHON=chosen)
    assert result.returncode == 1
    assert f"setup: PYTHON={chosen}: there is no such program." in result.stderr
    assert "PYTHON=/path/to/python3.11 tools/setup" in lines_of(result.stderr)
    assert machine.done() == []


@pytest.mark.parametrize("place", [".", ".venv", "build"])
def test_a_place_of_another_user_is_named_with_its_owner(machine, place):
    """Made-up tests of access, as root may write anywhere."""
    (machine.checkout / place).mkdir(exist_ok=True)
    env = machine.stubs / "not-writable.sh"
    env.write_text(
        f'test() {{ [ "$1 $2" != "-w {place}" ] && builtin test "$@"; }}\n'
        f'[() {{ if builtin [ "$1 $2" = "-w {place}" ]; then return 1; fi; builtin [ "$@"; }}\n'
    )
    machine.add_tool("id", '#!/bin/sh\n[ "$1" = -un ] && echo ada || echo 1000\n')
    machine.add_tool("stat", "#!/bin/sh\necho grace\n")
    result = machine.setup(BASH_ENV=str(env))
    assert result.returncode == 1
    shown = str(machine.checkout / place).removesuffix("/.")
    assert f"setup: {shown} belongs to grace, and you (ada) may not write there." in result.stderr
    assert f"chown -R ada '{shown}'" in lines_of(result.stderr)
    assert machine.done() == []


def test_a_read_only_checkout_is_called_that(machine):
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    inside = privileged("unshare", "--mount", "sh", "-c", mount, "sh", machine.checkout)
    path = f"{machine.stubs}:{os.environ['PATH']}"
    result = machine.setup(inside=inside, PATH=path)
    assert result.returncode == 1
    said = f"setup: the file system of {machine.checkout} is read-only, and the build writes there."
    assert said in result.stderr
    assert f"git clone '{machine.checkout}' /path/to/atp" in lines_of(result.stderr)
    assert machine.done() == []


@pytest.mark.parametrize("goal", ["build", "demo", "demo-tp", "test", "papers", "soak", "lint"])
def test_make_leaves_the_choice_of_the_python_to_the_user(tmp_path, goal):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tools").mkdir()
    setup = tmp_path / "tools" / "setup"
    setup.write_text('#!/bin/sh\necho "setup chose ${PYTHON:-nothing}"\nexit 1\n')
    setup.chmod(0o755)
    # A `make test PYTHON=…` around this would reach it through MAKEFLAGS.
    said = ("PYTHON", "MAKEFLAGS")
    without = {name: value for name, value in os.environ.items() if name not in said}
    for chosen in ({}, {"PYTHON": "/my/python"}):
        result = subprocess.run(
            ["make", goal], cwd=tmp_path, env={**without, **chosen}, capture_output=True, text=True
        )
        assert result.returncode == 2
        assert f"setup chose {chosen.get('PYTHON', 'nothing')}\n" in result.stdout


def test_an_unknown_argument_is_named(machine):
    result = machine.setup("--develop")
    assert result.returncode == 2
    assert "setup: unknown argument --develop (--dev, --bench, --no-packages)" in result.stderr


def test_the_ebpf_check_says_how_to_get_its_compiler(machine):
    check = ROOT / "tools" / "check_bpf_compiles"
    result = subprocess.run(
        [machine.stubs / "bash", check, "atp/wire/packet.h"],
        env={"PATH": str(machine.stubs)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "clang-19 not found" in result.stderr
    assert "tools/setup --dev" in result.stderr
