"""A copy of the checkout in which mutants are planted and built, one at a time."""

import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.programs import additions

# The code is compiled more often than it runs, so it is hardly optimized. It has the checks of the
# sanitizers' build, but no warnings: they do not count as finding a mutant.
FLAGS = "-w -O1 -D_GLIBCXX_ASSERTIONS -fpch-preprocess"
MEMORY = 6 << 30  # bytes of address space for a mutant's tests
# A process that only waits is ended by wall-clock time, at this multiple of its processor time
# limit.
WAITING = 10


@dataclass(frozen=True)
class Run:
    """How a command ended: its exit code, negative for a signal, None for a time-out. The seconds
    are processor time, so that a busy machine does not kill mutants."""

    code: int | None
    output: str
    seconds: float


class Scratch:
    def __init__(self, repository, folder, jobs):
        self.repository = Path(repository)
        self.folder = Path(folder).resolve()
        self.checkout = self.folder / "checkout"
        self.build_folder = self.checkout / "build" / "release"  # where the tests find programs
        self.jobs = jobs

    def lock(self):
        """Locks the folder until the process ends; raises BlockingIOError if another one has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.held = open(self.folder / "lock", "w")
        fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def text(self, file):
        """The original text of a file."""
        return (self.repository / file).read_text()

    def tracked(self):
        names = subprocess.check_output(["git", "ls-files"], cwd=self.repository, text=True)
        return [name for name in names.splitlines() if (self.repository / name).is_file()]

    def refresh(self):
        """Makes the copy equal to the checkout, even if an earlier run left a mutant in it."""
        tracked = set(self.tracked())
        for name in sorted(tracked):
            content = (self.repository / name).read_bytes()
            if name == "CMakeLists.txt":
                content += additions().encode()
            target = self.checkout / name
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                shutil.copymode(self.repository / name, target)
        for folder in ("atp", "python", "tests"):
            for path in (self.checkout / folder).rglob("*"):
                if path.is_file() and str(path.relative_to(self.checkout)) not in tracked:
                    path.unlink()
        self._copy_extensions()

    def _copy_extensions(self):
        """What `make build` has put beside the Python sources, which no mutant changes."""
        for pattern in ("*.so", "_torch_series.py"):
            for built in (self.repository / "python" / "atp").glob(pattern):
                shutil.copy2(built, self.checkout / "python" / "atp" / built.name)

    def configure(self):
        if (self.build_folder / "build.ninja").is_file():
            return
        words = ["cmake", "-S", self.checkout, "-B", self.build_folder, "-G", "Ninja"]
        words += ["-DCMAKE_BUILD_TYPE=Mutants", "-DATP_PYTHON=OFF", "-DATP_UNITY=OFF"]
        words += [f"-DCMAKE_{language}_FLAGS_MUTANTS={FLAGS}" for language in ("C", "CXX")]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def build(self, targets, limit=1800):
        """Without targets there is nothing to build."""
        if not targets:
            return Run(0, "", 0.0)
        self.configure()
        return self.run(["ninja", "-C", self.build_folder, f"-j{self.jobs}", *targets], limit)

    @contextlib.contextmanager
    def planted(self, mutant):
        """Plants the mutant in the copy, and restores the original text in any case."""
        honest = self.text(mutant.file)
        path = self.checkout / mutant.file
        try:
            path.write_text(mutant.plant(honest))
            yield
        finally:
            path.write_text(honest)

    def run(self, command, limit, cwd=None):
        """Runs a command in its own process group, which is killed on time-out."""
        begin = computed()
        environment = dict(os.environ)
        # A separate cache, because mutants would evict objects that others need. When a mutant is
        # removed, the original objects come from it.
        environment.update(CCACHE_DIR=str(self.folder / "ccache"), CCACHE_DEPEND="1")
        environment.update(CCACHE_MAXSIZE="2G", CCACHE_SLOPPINESS="pch_defines,time_macros")
        log = self.folder / "output"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                command, cwd=cwd or self.checkout, env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                preexec_fn=lambda: bound(limit),
            )  # fmt: skip
            try:
                code = process.wait(WAITING * limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                # Kill what it left behind as well.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code == -signal.SIGXCPU:
            code = None
        return Run(code, log.read_text(errors="replace"), computed() - begin)


def computed():
    """Processor seconds of all ended children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bound(seconds):
    """The limits of each process."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
