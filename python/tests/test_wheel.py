"""A wheel's contents, except the compiled modules, which take too long to build again here."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from lab.installed import make_installed

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


def test_a_wheel_has_every_python_source_and_the_marks_of_its_types(tmp_path):
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    without_compiling = ["--config-settings", "wheel.cmake=false", "--wheel-dir", str(tmp_path)]
    subprocess.run([*wheel, *without_compiling, str(CHECKOUT)], check=True)
    names = set(zipfile.ZipFile(next(tmp_path.glob("atp-*.whl"))).namelist())
    sources = (CHECKOUT / "python/atp").rglob("*.py")
    expected = {str(path.relative_to(CHECKOUT / "python")) for path in sources}
    expected -= {"atp/_torch_series.py"}  # the build writes it
    assert expected | {"atp/py.typed", "atp/_planner.pyi"} <= names


def carry_out(program, folder):
    """What finished() prints."""
    done = finished(program, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def finished(program, folder):
    """Runs it, and makes a group, as if pip had installed atp with pyproject's entry points."""
    program += (
        f"; dist.init_process_group('atp', init_method='file://{folder}/store', "
        "rank=0, world_size=1); print(dist.get_backend(), 'atp.torch' in sys.modules)"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": make_installed(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )


LOADED_BY_NAME = {
    "torch.backends": "torch 2.13 does so with all of them, at the end of `import torch`",
    "torch.distributed.backends": "torch 2.14 and later do so with the one that a program names",
}


@pytest.mark.parametrize("group", LOADED_BY_NAME)
def test_an_entry_point_registers_the_backend(tmp_path, monkeypatch, group):
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    load = (
        "import sys, importlib.metadata, torch.distributed as dist; "
        "assert 'atp' not in dist.Backend.backend_list; "
        # Others' may be broken: in torch 2.15.0's own wheel one names a module that it lacks.
        f"[p.load()() for p in importlib.metadata.entry_points(group='{group}', name='atp')]"
    )
    assert carry_out(load, tmp_path) == "atp True\n"


def test_an_installed_module_needs_no_import(tmp_path):
    assert carry_out("import sys, torch, torch.distributed as dist", tmp_path) == "atp True\n"


IMPORT_TORCH = (
    "import sys, torch; import torch.distributed as dist; "
    "assert not {'atp.torch', 'atp._C'} & set(sys.modules); "
)
BROKEN = {
    "the extension was built for another torch": (
        "torch.__version__ = '2.99.0'",
        "ImportError: atp.torch was built for torch",
    ),
    "the extension cannot be loaded": (
        "sys.modules['atp._C'] = None",
        "ImportError: atp's torch extension cannot be loaded",
    ),
}


@pytest.mark.parametrize("why", BROKEN)
def test_importing_torch_works_although(tmp_path, why):
    """The backend says what is wrong once a program asks for it."""
    broken, text = BROKEN[why]
    done = finished(IMPORT_TORCH + broken, tmp_path)
    assert done.returncode == 1 and text in done.stderr, done.stderr


def test_importing_torch_loads_only_what_the_registration_needs(tmp_path):
    program = IMPORT_TORCH + (
        "ours = sorted(n for n in sys.modules if n.partition('.')[0] == 'atp'); "
        "assert ours == ['atp', 'atp._register'], ours"
    )
    assert carry_out(program, tmp_path) == "atp True\n"


def test_importing_torch_works_without_distributed(tmp_path):
    program = "import torch.distributed as d; d.is_available = lambda: False; import atp._register"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "python")}
    program += "; atp._register.register()"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=120)
