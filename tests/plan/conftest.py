"""Runs `atp plan` of build/release, or of the build folder that ATP_BUILD names."""

import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))


class Program:
    """The program, in a folder that has the examples' files."""

    def __init__(self, folder):
        self.folder = folder
        for kind in ("clusters", "models"):
            for file in (REPOSITORY / "examples" / kind).iterdir():
                (folder / file.name).symlink_to(file)

    def write(self, name, text):
        path = self.folder / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        return name

    def run(self, *arguments, input=None, stdin=None, stdout=subprocess.PIPE):
        return subprocess.run(
            [BUILD / "bin" / "atp", "plan", *map(str, arguments)],
            cwd=self.folder,
            input=input,
            **({} if stdin is None else {"stdin": stdin}),
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )

    def output(self, *arguments, input=None):
        result = self.run(*arguments, input=input)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        return result.stdout


@pytest.fixture
def program(tmp_path):
    return Program(tmp_path)
