"""Runs one training job under `atp run` and shows its progress."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import node_stats

from lab.entry import ends_with_us

WORKERS = 4
# What fits Ethernet's MTU of 1500; loopback would allow more.
VALUES_PER_FRAGMENT = 350
HERE = pathlib.Path(__file__).resolve().parent
_BAR_WIDTH = 24


class JobFailed(Exception):
    """The message has the failed command and its output."""


class Run:
    """The results of a finished job."""

    def __init__(self, backend: str, folder: pathlib.Path):
        self.backend = backend
        # Written by train.py.
        self.result = json.loads((folder / "result.json").read_text())
        self.server = node_stats.read(folder / "server.jsonl")
        self.switch = node_stats.read(folder / "switch.jsonl")


def run(program: pathlib.Path, backend: str, size, folder: pathlib.Path) -> Run:
    """Trains over `backend` and shows the progress; `size` has the images and the epochs."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
    except OSError as error:
        raise JobFailed(
            f"cannot clear {folder} of an earlier run's files: {error.filename}: "
            f"{error.strerror}; remove it, or choose another folder with --out"
        ) from None
    command = [
        str(program), "run", "-n", str(WORKERS),
        "--values", str(VALUES_PER_FRAGMENT), "--stats-dir", str(folder), "--",
        sys.executable, str(HERE / "train.py"), "--backend", backend, "--out", str(folder),
        "--images", str(size.images), "--epochs", str(size.epochs),
    ]  # fmt: skip
    # One thread per worker, because more would compete for the cores. By default Gloo uses the
    # host's name, which may not resolve on a newly installed machine.
    environment = {"GLOO_SOCKET_IFNAME": "lo", **os.environ, "OMP_NUM_THREADS": "1"}
    log_path = folder / "log.txt"
    begin = time.monotonic()
    with log_path.open("w") as log, _Display(backend, folder) as display:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log,
                                   preexec_fn=ends_with_us())  # fmt: skip
        try:
            while process.poll() is None:
                time.sleep(0.2)
                display.update()
        finally:
            # Ctrl-C also reaches `atp run`, which ends its workers.
            process.wait()
        display.finish(time.monotonic() - begin)
    if process.returncode != 0:
        last = "\n".join(log_path.read_text().splitlines()[-15:])
        raise JobFailed(f"{' '.join(command)}\nexited with code {process.returncode}:\n{last}")
    return Run(backend, folder)


class _Display:
    """A progress line, rewritten in place on a terminal."""

    def __init__(self, backend: str, folder: pathlib.Path):
        self._backend = backend
        self._progress = folder / "progress.jsonl"
        self._server = folder / "server.jsonl"
        self._in_place = sys.stdout.isatty()
        self._tenth = 0
        self._shown = ""

    def __enter__(self) -> "_Display":
        self._show(f"{self._backend:<4}  starting")
        return self

    def __exit__(self, *_) -> None:
        if self._in_place:
            print()

    def update(self) -> None:
        record = _last_line(self._progress)
        if record is None:
            return
        tenth = 10 * record["step"] // record["steps"]
        if self._in_place or tenth > self._tenth:
            self._tenth = tenth
            self._show(self._text(record))

    def finish(self, seconds: float) -> None:
        record = _last_line(self._progress)
        if record is not None:
            self._show(f"{self._text(record)}  {seconds:.0f} s in total")

    def _text(self, record: dict) -> str:
        done = _BAR_WIDTH * record["step"] // record["steps"]
        bar = "█" * done + "·" * (_BAR_WIDTH - done)
        text = (
            f"{self._backend:<4}  {bar}  step {record['step']:>3} of {record['steps']}, "
            f"epoch {record['epoch']}, loss {record['loss']:.3f}"
        )
        share = node_stats.share_summed_in_switch(_last_line(self._server))
        return text if share is None else f"{text}, summed in the switch {share:.2%}"

    def _show(self, text: str) -> None:
        if text == self._shown:
            return
        self._shown = text
        if self._in_place:
            print(f"\r{text}\033[K", end="", flush=True)
        else:
            print(text, flush=True)


def _last_line(path: pathlib.Path) -> dict | None:
    """The last complete record of a file of JSON lines that is being written."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 8192))
        lines = file.read().split(b"\n")
    # The text after the last newline is empty, or an unfinished line.
    return json.loads(lines[-2]) if len(lines) >= 2 else None
