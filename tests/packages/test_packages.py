"""What `make package` builds, installed and run from scratch: `make test-packages`, as root.

The Debian package's life is in in_machine, which runs under a systemd of its own on a bare Debian
(debootstrap: half a minute, with the packages of earlier runs in ATP_DEBS or apt's cache).
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1800)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGES = ROOT / "build" / "packages"
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "python/atp/__init__.py").read_text())[1]
# Without a compiler and without Python: nothing that the package does not ask for.
BARE = "systemd,systemd-sysv"
STEPS = re.findall(r'^step "([^"]+)"', (HERE / "in_machine").read_text(), re.MULTILINE)


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def the(pattern):
    (found,) = PACKAGES.glob(pattern)
    return found


@pytest.fixture(scope="module", autouse=True)
def packages():
    run(ROOT / "tools" / "package", cwd=ROOT)


@pytest.fixture(scope="module")
def bare_debian(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.fail("a bare Debian needs root: sudo make test-packages")
    folder = tmp_path_factory.mktemp("machine") / "root"
    debs = os.environ.get("ATP_DEBS", "/var/cache/apt/archives")
    options = ["--variant=minbase", f"--include={BARE}", f"--cache-dir={debs}"]
    run("debootstrap", *options, "bookworm", folder, env={**os.environ, "DPKG_FORCE": "unsafe-io"})
    yield folder
    mounted = Path("/proc/self/mountinfo").read_text()
    assert f" {folder}" not in mounted  # or its removal would be that of what is mounted
    shutil.rmtree(folder)


def only(package, **options):
    """What pip would install for a package, in the environment of the tests, which has torch."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-"]
    report = json.loads(run(*pip, "--no-build-isolation", package, **options))
    return [one["metadata"]["name"] for one in report["install"]]


def changed(package, name, folder, **fields):
    """The package with other fields in its control file."""
    content = folder / "content"
    run("dpkg-deb", "--raw-extract", package, content)
    control = content / "DEBIAN" / "control"
    text = control.read_text()
    for field, value in fields.items():
        text = re.sub(rf"^{field}: .*$", f"{field}: {value}", text, flags=re.MULTILINE)
    control.write_text(text)
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", content, name)
    shutil.rmtree(content)


@pytest.fixture(scope="module")
def life(bare_debian, tmp_path_factory):
    """What in_machine reported about the Debian package."""
    srv = bare_debian / "srv"
    package = the("atp_*.deb")
    work = tmp_path_factory.mktemp("changed")
    own = run("dpkg", "--print-architecture").strip()
    shutil.copy(package, srv / "atp.deb")
    changed(package, srv / "newer.deb", work, Version=f"{VERSION}+1")
    foreign = "amd64" if own == "arm64" else "arm64"
    changed(package, srv / "foreign.deb", work, Architecture=foreign)
    for file in ("in_machine", "cluster.yaml"):
        shutil.copy(HERE / file, srv)
    machine = [HERE / "systemd_machine", bare_debian, "/srv/in_machine"]
    done = subprocess.run(machine, capture_output=True, text=True, timeout=600)
    return (srv / "said").read_text() + done.stdout + done.stderr


@pytest.mark.parametrize("sentence", STEPS)
def test_the_debian_package(sentence, life):
    assert f"passed: {sentence}\n" in life, life


def test_the_debian_package_needs_only_the_c_library():
    depends = run("dpkg-deb", "--field", the("atp_*.deb"), "Depends").strip()
    assert re.fullmatch(r"libc6 \(>= [\d.]+\)", depends)


def test_every_package_has_the_modules_version():
    assert run("dpkg-deb", "--field", the("atp_*.deb"), "Version").strip() == VERSION
    assert the("atp_program-*.whl").name.split("-")[1] == VERSION
    assert the("atp-*.tar.gz").name == f"atp-{VERSION}.tar.gz"


def test_the_page_names_the_packages():
    """Where the program is built on Debian 12, whose C library decides the wheel's name."""
    page = (ROOT / "docs" / "packages.md").read_text()
    for package in PACKAGES.iterdir():
        assert f"./{package.name}\n" in page or f"pip install {package.name}\n" in page


def test_the_image_of_the_containerfile_runs(bare_debian, tmp_path):
    said = run(HERE / "container", bare_debian, PACKAGES, tmp_path)
    assert said.startswith(f"user 65534\nentry point /usr/bin/atp\natp {VERSION} ")
    assert "0 OK" in said


def test_pip_installs_nothing_else_beside_torch():
    assert only(the("atp_program-*.whl")) == ["atp-program"]
    assert only(the("atp-*.tar.gz")) == ["atp"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with nothing but pip and the wheel."""
    folder = tmp_path_factory.mktemp("wheel") / "venv"
    run(sys.executable, "-m", "venv", folder)
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    run(folder / "bin" / "pip", "install", the("atp_program-*.whl"), env=offline)
    return folder


def test_the_wheel_puts_the_program_on_the_path_and_its_pages_beside(environment):
    alone = {"PATH": f"{environment}/bin:/usr/bin:/bin"}
    assert f"atp {VERSION} " in run("bash", "-c", "atp --version", env=alone)
    assert "summed" in run("bash", "-c", "atp sim --seed 1", env=alone)
    assert (environment / "share/man/man1/atp-switch.1.gz").exists()


def test_the_wheels_switch_and_server_sum(environment):
    ranks = ["run", "-n", "2", "--switch", "--", environment / "bin/atp", "bench", "allreduce"]
    size = ["-b", "64K", "-e", "64K", "-n", "2", "-w", "1"]
    assert "0 OK" in run(environment / "bin/atp", *ranks, *size, env={})


def test_the_wheel_leaves_nothing_when_it_is_uninstalled(environment):
    left = environment / "share"
    assert any(left.rglob("*"))
    run(environment / "bin/pip", "uninstall", "--yes", "atp-program")
    assert not [path for path in left.rglob("*") if path.is_file()]
    assert not (environment / "bin/atp").exists()


def test_the_wheels_name_says_which_systems_can_run_it(tmp_path):
    wheel = the("atp_program-*.whl")
    newest = int(re.search(r"-py3-none-manylinux_2_(\d+)_", wheel.name)[1])
    assert wheel.name.endswith(f"_{platform.machine()}.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith("/scripts/atp")]
        program = archive.extract(name, tmp_path)
    symbols = re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", program))
    assert max(map(int, symbols)) == newest
    libraries = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", program))
    assert {re.sub(r"\.so.*|-linux.*", "", one) for one in libraries} <= {"libc", "libm", "ld"}


def test_pip_refuses_the_wheel_of_another_processor(environment, tmp_path):
    wheel = the("atp_program-*.whl")
    foreign = tmp_path / wheel.name.replace(platform.machine(), "s390x")
    shutil.copy(wheel, foreign)
    pip = [environment / "bin/pip", "install", "--no-index", foreign]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode != 0
    assert "is not a supported wheel on this platform" in done.stderr


def test_the_source_package_has_what_it_compiles_and_its_one_library():
    with tarfile.open(the("atp-*.tar.gz")) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert "third_party/xxhash.h" in names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "python/csrc").rglob("*.cc")}
    sources = {name for name in sources if not name.endswith("_test.cc")}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "python/atp").rglob("*.py")}
    assert sources | modules - {"python/atp/_torch_series.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "atp/cli/"))]
