#!/usr/bin/env python3
"""Checks that every #include "atp/..." points inward, according to the table below.

A folder's own headers are always allowed. To add a component, add its line to the table. The core
and the wire format are pure, so they may not include I/O headers either. No header may include the
large headers of libraries, which would cost compiler time in every source.

Usage: tools/check_layers.py [repository root]
"""

import re
import sys
from pathlib import Path

# component: the components whose headers it may include. "atp/core" means headers directly in that
# folder; "atp/core/**" everything below it.
ALLOWED = {
    "atp/base": [],
    "atp/wire": ["atp/base"],
    "atp/core": ["atp/base", "atp/wire"],
    "atp/core/topology": ["atp/base", "atp/wire", "atp/core"],
    "atp/core/dataplane": ["atp/base", "atp/wire", "atp/core", "atp/core/topology"],
    "atp/core/worker": ["atp/base", "atp/wire", "atp/core", "atp/core/topology"],
    "atp/core/server": ["atp/base", "atp/wire", "atp/core", "atp/core/topology"],
    "atp/sim": ["atp/base", "atp/wire", "atp/core/**"],
    "atp/driver/keys": ["atp/base", "atp/wire", "atp/core"],
    "atp/driver/udp": ["atp/base", "atp/wire", "atp/core", "atp/driver/keys"],
    "atp/driver/tcp": ["atp/base", "atp/wire", "atp/driver/udp"],
    "atp/driver/http": ["atp/base", "atp/wire", "atp/driver/udp", "atp/driver/tcp"],
    "atp/collective/recorder": ["atp/base"],
    "atp/collective/waits": ["atp/base"],
    "atp/collective/base": [
        "atp/base",
        "atp/wire",
        "atp/core",
        "atp/core/worker",
        "atp/driver/keys",
        "atp/driver/udp",
        "atp/collective/recorder",
        "atp/collective/waits",
    ],
    "atp/collective/shm": [
        "atp/base",
        "atp/wire",
        "atp/core/worker",
        "atp/driver/udp",
        "atp/collective/base",
        "atp/collective/recorder",
        "atp/collective/waits",
    ],
    "atp/collective/network": [
        "atp/base",
        "atp/wire",
        "atp/core/**",
        "atp/driver/**",
        "atp/collective/base",
        "atp/collective/recorder",
        "atp/collective/waits",
    ],
    "atp/collective": [
        "atp/base",
        "atp/wire",
        "atp/core/**",
        "atp/driver/**",
        "atp/collective/base",
        "atp/collective/network",
        "atp/collective/peer",
        "atp/collective/recorder",
        "atp/collective/shm",
        "atp/collective/waits",
    ],
    "atp/collective/peer": [
        "atp/base",
        "atp/wire",
        "atp/core/worker",
        "atp/driver/**",
        "atp/collective/base",
        "atp/collective/recorder",
        "atp/collective/waits",
    ],
    "atp/collective/testing": ["atp/**"],
    "atp/planner": ["atp/base"],
    "atp/config/text": ["atp/base"],
    "atp/config/site": ["atp/base", "atp/wire", "atp/config/text"],
    "atp/config/interconnect": [
        "atp/base",
        "atp/planner",
        "atp/config/text",
        "atp/config/site",
    ],
    "atp/config": ["atp/base", "atp/planner", "atp/config/text"],
    "atp/cli/command": ["atp/base", "atp/config/text"],
    "atp/cli/status": ["atp/base", "atp/config/text", "atp/cli/command"],
    "atp/cli/metrics": ["atp/base", "atp/wire", "atp/core/**", "atp/driver/**", "atp/cli/status"],
    "atp/cli/run": [
        "atp/base",
        "atp/wire",
        "atp/core",
        "atp/core/topology",
        "atp/core/worker",
        "atp/collective",
        "atp/collective/base",
        "atp/collective/network",
        "atp/collective/shm",
        "atp/driver/**",
        "atp/config/text",
        "atp/config/site",
        "atp/cli/command",
        "atp/cli/node",
    ],
    "atp/cli/node": [
        "atp/base",
        "atp/wire",
        "atp/core/**",
        "atp/driver/**",
        "atp/collective/base",
        "atp/collective/network",
        "atp/config/text",
        "atp/config/site",
        "atp/cli/command",
        "atp/cli/metrics",
        "atp/cli/status",
    ],
    "atp/cli/report": [
        "atp/base",
        "atp/collective/recorder",
        "atp/config/text",
        "atp/cli/command",
        "atp/cli/status",
    ],
    "atp/cli/doctor": [
        "atp/base",
        "atp/wire",
        "atp/core",
        "atp/driver/**",
        "atp/collective",
        "atp/collective/network",
        "atp/config/text",
        "atp/config/site",
        "atp/cli/command",
        "atp/cli/node",
        "atp/cli/status",
    ],
    "atp/cli/view": [
        "atp/base",
        "atp/wire",
        "atp/driver/**",
        "atp/config/text",
        "atp/config/site",
        "atp/cli/command",
        "atp/cli/metrics",
        "atp/cli/node",
        "atp/cli/status",
    ],
    "atp/cli/sim": [
        "atp/base",
        "atp/core/**",
        "atp/sim",
        "atp/config/text",
        "atp/config/site",
        "atp/cli/command",
    ],
    "atp/cli/bench": [
        "atp/base",
        "atp/wire",
        "atp/collective",
        "atp/collective/base",
        "atp/cli/command",
    ],
    "atp/cli/plan": ["atp/base", "atp/planner", "atp/config/**", "atp/cli/command"],
    "atp/cli/help": ["atp/base", "atp/config/text", "atp/cli/command"],
    "atp/cli": [
        "atp/wire",
        "atp/config/text",
        "atp/cli/command",
        "atp/cli/doctor",
        "atp/cli/help",
        "atp/cli/report",
        "atp/cli/view",
    ],
    "python": [
        "atp/base",
        "atp/wire",
        "atp/driver/**",
        "atp/collective/**",
        "atp/planner",
        "atp/config/**",
    ],
    "tests": ["atp/**"],
    "fuzz": ["atp/**"],
    "explore": ["atp/**"],
    "examples": ["atp/**"],
    "experiments": ["atp/**"],
}
# Only tests and the like may include headers of the program.
MAY_INCLUDE_CLI = {"atp/cli/**", "tests", "fuzz", "experiments", "explore"}

PURE = ["atp/wire", "atp/core"]
IMPURE_HEADERS = set(
    """iostream fstream sstream syncstream print thread mutex shared_mutex condition_variable future
    stop_token semaphore latch barrier filesystem ctime cstdio csignal time.h stdio.h signal.h
    pthread.h unistd.h fcntl.h poll.h syslog.h sys/socket.h sys/time.h sys/epoll.h sys/eventfd.h
    sys/timerfd.h sys/ioctl.h sys/mman.h netdb.h""".split()
)
IMPURE_PREFIXES = ("spdlog/", "fmt/")
LARGE_HEADERS = re.compile(r"CLI/|spdlog/|xxhash\.h|nlohmann/json\.hpp")
# Of <chrono>, durations are allowed because they are plain values; clocks are not.
IMPURE_CODE = re.compile(
    r"\b(?:(?:system|steady|high_resolution|utc|tai|gps|file)_clock|random_device)\b"
)

SOURCE_SUFFIXES = {".h", ".hh", ".hpp", ".c", ".cc", ".cpp", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
TEST_FILE = re.compile(r"_(test|bench|fuzz)\.cc$")


def component_of(path):
    """The longest component that contains a repository path, or None."""
    folder = path.rsplit("/", 1)[0] if "/" in path else ""
    while folder:
        if folder in ALLOWED:
            return folder
        folder = folder.rpartition("/")[0]
    return None


def covers(pattern, component):
    if pattern.endswith("/**"):
        root = pattern[:-3]
        return component == root or component.startswith(root + "/")
    return component == pattern


def check_include(root, path, component, quoted, system):
    """What is wrong with one include of one file, or None."""
    included = quoted or system
    pure = any(covers(p + "/**", component) for p in PURE) and not TEST_FILE.search(path)
    if pure and (included in IMPURE_HEADERS or included.startswith(IMPURE_PREFIXES)):
        return f"<{included}> in {component}, which must not use I/O, clocks or threads"
    if path.endswith((".h", ".hh", ".hpp")) and LARGE_HEADERS.match(included):
        return f"<{included}> in a header; include it in sources only"
    if quoted and (quoted.startswith(".") or (root / path).parent.joinpath(quoted).is_file()):
        return f'"{quoted}" is relative; use the path from the repository root'
    target = component_of(included)
    if target is None:
        if included.startswith("atp/"):
            return f'"{included}" is not in a known component; add it to {Path(__file__).name}'
        return None
    if target == component:
        return None
    if target.endswith("/testing"):
        if TEST_FILE.search(path) or not component.startswith("atp/"):
            return None
        return f'"{included}": only tests may include it'
    is_user = any(covers(pattern, component) for pattern in MAY_INCLUDE_CLI)
    if covers("atp/cli/**", target) and not is_user:
        return f'"{included}": nothing may include atp/cli'
    if not target.startswith("atp/"):
        # Code outside of atp/, such as python/ and tests/, may only be included there.
        if component.startswith("atp/"):
            return f'"{included}": {component} is product code and may not include {target}'
        return None
    if any(covers(pattern, target) for pattern in ALLOWED[component]):
        return None
    allowed = ", ".join(ALLOWED[component]) or "nothing else of atp"
    return f'"{included}": {component} may include {allowed}'


def check_file(root, path):
    """Yields 'file:line: what is wrong' for one file; path is relative to root."""
    component = component_of(path)
    if component is None:
        if path.startswith("atp/"):
            yield f"{path}:1: not in a known component; add its line to {Path(__file__).name}"
        return
    pure = any(covers(p + "/**", component) for p in PURE) and not TEST_FILE.search(path)
    for number, line in enumerate((root / path).read_text().splitlines(), start=1):
        include = INCLUDE.match(line)
        if include:
            problem = check_include(root, path, component, include[1], include[2])
            if problem:
                yield f"{path}:{number}: {problem}"
        elif pure:
            code = IMPURE_CODE.search(line.split("//")[0])
            if code:
                yield f"{path}:{number}: {code[0]} in {component}; time and seeds are arguments"


def source_files(root):
    for top in sorted({component.split("/")[0] for component in ALLOWED}):
        for file in sorted((root / top).rglob("*")):
            if file.suffix in SOURCE_SUFFIXES and file.is_file():
                yield file.relative_to(root).as_posix()


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent)
    files = list(source_files(root))
    problems = [problem for path in files for problem in check_file(root, path)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"check_layers: {len(problems)} includes violate the layers", file=sys.stderr)
        return 1
    print(f"check_layers: {len(files)} files, all includes point inward")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
