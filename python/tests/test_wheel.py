"""A wheel's contents, except the compiled modules, which take too long to build again here."""

import pathlib
import subprocess
import sys
import zipfile

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
