"""A wheel's contents, except the compiled modules, which take too long to build again here."""

import os
import pathlib
import subprocess
import sys
import tomllib
import zipfile

import torch.distributed as dist

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
    """What it prints, with atp installed as by pip: its metadata has pyproject's entry points."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    metadata = folder / "atp-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: atp\nVersion: 0.1.0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    program += (
        f"; dist.init_process_group('atp', init_method='file://{folder}/store', "
        "rank=0, world_size=1); print(dist.get_backend(), 'atp.torch' in sys.modules)"
    )
    paths = os.pathsep.join([str(folder), str(CHECKOUT / "python")])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_entry_point_registers_the_backend(tmp_path):
    """As torch 2.14 and later do with the entry points of all installed packages."""
    load = (
        "import sys, importlib.metadata, torch.distributed as dist; "
        "assert 'atp.torch' not in sys.modules; "
        "[p.load()() for p in importlib.metadata.entry_points(group='torch.distributed.backends')]"
    )
    assert carry_out(load, tmp_path) == "atp True\n"


if hasattr(dist, "_reconfigure"):  # from torch 2.14 on, which looks for such backends

    def test_an_installed_module_needs_no_import(tmp_path):
        assert carry_out("import sys, torch, torch.distributed as dist", tmp_path) == "atp True\n"
