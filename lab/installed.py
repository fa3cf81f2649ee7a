"""Makes this checkout look installed to the Python programs of a test."""

import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]


def make_installed(folder):
    """The import path with which a program sees atp as if pip had installed it."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    metadata = Path(folder) / "atp-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: atp\nVersion: 0.1.0\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return f"{folder}:{CHECKOUT / 'python'}"
