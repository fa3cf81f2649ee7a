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

import pytest

from tests.pages import all_pages
from tests.readme.test_pages import links

from .machine import HERE, PACKAGES, ROOT, VERSION, bare_debian, run, the

pytestmark = pytest.mark.timeout(1800)

# Without a compiler and without Python: nothing that the package does not ask for.
BARE = "systemd,systemd-sysv"
STEPS = re.findall(r'^step "([^"]+)"', (HERE / "in_machine").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    with bare_debian(tmp_path_factory.mktemp("machine") / "root", BARE) as folder:
        yield folder


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
def life(bare, tmp_path_factory):
    """What in_machine reported about the Debian package."""
    srv = bare / "srv"
    package = the("atp_*.deb")
    work = tmp_path_factory.mktemp("changed")
    own = run("dpkg", "--print-architecture").strip()
    shutil.copy(package, srv / "atp.deb")
    changed(package, srv / "newer.deb", work, Version=f"{VERSION}+1")
    foreign = "amd64" if own == "arm64" else "arm64"
    changed(package, srv / "foreign.deb", work, Architecture=foreign)
    for file in ("in_machine", "cluster.yaml"):
        shutil.copy(HERE / file, srv)
    machine = [HERE / "systemd_machine", bare, "/srv/in_machine"]
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


def test_the_pages_come_with_the_pages_and_files_that_they_link_to(tmp_path):
    """Only source code is missing, and the pages that are part of it."""
    run("dpkg-deb", "--extract", the("atp_*.deb"), tmp_path)
    installed = tmp_path / "usr/share/doc/atp"
    pages = [name for name in all_pages() if name.startswith("docs/") or "/" not in name]
    assert len(pages) > 20
    source = ("atp/", "python/", "experiments/", "examples/0")
    missing = set()
    for page in pages:
        for _, target in links(installed / page):
            path = os.path.normpath(os.path.join(os.path.dirname(page), target.partition("#")[0]))
            if not path.startswith(source) and not (installed / path).exists():
                missing.add(f"{page}: {target}")
    assert missing == set()


def test_the_page_names_the_packages():
    """Holds for a program built on Debian 12, whose C library decides the wheel's name."""
    page = (ROOT / "docs" / "use" / "packages.md").read_text()
    for package in PACKAGES.iterdir():
        assert f"./{package.name}\n" in page or f"pip install {package.name}\n" in page


def test_the_image_of_the_containerfile_runs(bare, tmp_path):
    said = run(HERE / "container", bare, PACKAGES, tmp_path)
    assert said.startswith(f"user 65534\nentry point /usr/bin/atp\natp {VERSION} ")
    assert "0 OK" in said


def test_pip_installs_nothing_else_besides_torch():
    assert only(the("atp_program-*.whl")) == ["atp-program"]
    assert only(the("atp-*.tar.gz")) == ["atp"]


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


def test_the_source_package_has_what_it_compiles_and_its_one_library():
    with tarfile.open(the("atp-*.tar.gz")) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert "third_party/xxhash.h" in names
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "python/csrc").rglob("*.cc")}
    sources = {name for name in sources if not name.endswith("_test.cc")}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "python/atp").rglob("*.py")}
    assert sources | modules - {"python/atp/_torch_series.py"} <= names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "atp/cli/"))]
