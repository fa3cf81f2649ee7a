"""Who may create networks, and how: root, an ordinary user, and a user who may not."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import user_namespace
from lab.requirements import may_make_networks, with_system_folders

REPOSITORY = Path(__file__).resolve().parents[2]
# An ordinary user; if root runs the tests, it has to become one.
AS_USER = ("tools/as_nobody",) if os.geteuid() == 0 else ()
ENVIRONMENTS = {
    # Root of a user namespace, so that an ordinary user can try it as well.
    "root": ("unshare", "--user", "--map-root-user", "--net", "--mount",
             "sh", "-c", 'mount -t tmpfs tmpfs /run; exec "$@"', "sh"),
    "a user": (),
    "a user who may not": ("unshare", "--user", "--map-current-user", "--keep-caps",
             "sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces; "
             'exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all "$@"', "sh"),
}  # fmt: skip
MAKE_A_NETWORK = """
import json, os, sys, tempfile
from pathlib import Path
from lab.network import Network
from lab.requirements import privileged

folder = tempfile.TemporaryDirectory()
with folder, Network(Path(folder.name), {"rack": ["a", "b"]}) as network:
    network.shape_host("a", 100)
    process = network["a"].start("sleep", 100)
    found = {"way": privileged(), "uid": os.geteuid(), "counters": network["a"].counters()}
    found["started"], found["inside"] = process.pid, network["a"].pids()
    print(json.dumps({**found, "pid": os.getpid()}), flush=True)
    exec(sys.argv[1])
"""


def command(environment, then="pass"):
    words = (sys.executable, "-c", MAKE_A_NETWORK, then)
    return (*AS_USER, *ENVIRONMENTS[environment], *words)


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=REPOSITORY)


@pytest.mark.parametrize("environment", ["root", "a user"])
def test_a_network_is_made(environment, needs_namespaces):
    done = run(*command(environment))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "rx_bytes" in found["counters"]
    assert found["inside"] == [found["started"]]
    if environment == "root":
        assert found["way"] == []
    else:
        assert found["way"][0] == "nsenter"
        assert found["uid"] != 0


def test_a_user_who_may_not_is_told_why_and_what_to_do_in_one_line(needs_namespaces):
    done = run(*command("a user who may not"))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "network namespaces need root or a user namespace, but this system permits no user "
        "namespace (user.max_user_namespaces is 0): run this as root, or with sudo, or set sysctl "
        "user.max_user_namespaces=15000\n"
    )


@pytest.fixture
def user_with_a_network(needs_namespaces):
    """A process group that waits, and what its program reports about itself."""
    with subprocess.Popen(
        command("a user", "import time; time.sleep(100)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        process_group=0,
    ) as process:
        yield process, json.loads(process.stdout.readline())
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def interrupt(group, program):
    """As Ctrl-C does."""
    os.killpg(group, signal.SIGINT)


def kill(group, program):
    os.kill(program, signal.SIGKILL)


def runs(pid):
    """False for a zombie, too: not every system's first process reaps."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    return False


@pytest.mark.parametrize("end", [interrupt, kill])
def test_no_namespace_outlives_the_program_that_made_it(user_with_a_network, end):
    process, found = user_with_a_network
    way = found["way"]
    rest = [way[way.index("--target") + 1], found["started"]]
    assert all(runs(pid) for pid in rest)
    end(process.pid, found["pid"])
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "nsenter" not in said, said
    deadline = time.monotonic() + 10
    while any(runs(pid) for pid in rest):
        assert time.monotonic() < deadline, "what ran in the namespace is still there"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("capabilities", "writable", "may"),
    [
        pytest.param("000001ffffffffff", True, True, id="root"),
        pytest.param("0000000000000000", True, False, id="a user"),
        pytest.param("0000000000001000", True, False, id="who administers networks"),
        pytest.param("0000000000200000", True, False, id="who administers the system"),
        pytest.param("0000000000201000", True, True, id="who administers both"),
        pytest.param("00000000a80425fb", True, False, id="root in an ordinary container"),
        pytest.param("000001ffffffffff", False, False, id="root where /run is another's"),
    ],
)
def test_who_may_make_networks_without_a_user_namespace(capabilities, writable, may):
    status = f"Name:\tpython\nCapPrm:\t{'f' * 16}\nCapEff:\t{capabilities}\nCapBnd:\t{'f' * 16}\n"
    assert may_make_networks(status, writable) is may


@pytest.mark.parametrize(
    ("sysctls", "cause", "remedy"),
    [
        ({}, "unshare: Operation not permitted", ""),
        ({"user/max_user_namespaces": "96365"}, "unshare: Operation not permitted", ""),
        (
            {"user/max_user_namespaces": "0"},
            "user.max_user_namespaces is 0",
            ", or set sysctl user.max_user_namespaces=15000",
        ),
        (
            {"user/max_user_namespaces": "9", "user/max_net_namespaces": "0"},
            "user.max_net_namespaces is 0",
            ", or set sysctl user.max_net_namespaces=15000",
        ),
        (
            {"kernel/unprivileged_userns_clone": "0", "user/max_user_namespaces": "9"},
            "kernel.unprivileged_userns_clone is 0",
            ", or set sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "1"},
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            ", or set sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            {"kernel/apparmor_restrict_unprivileged_userns": "0"},
            "unshare: Operation not permitted",
            "",
        ),
    ],
)
def test_what_forbids_user_namespaces_is_named(tmp_path, sysctls, cause, remedy):
    for name, value in sysctls.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")
    text = user_namespace.why_forbidden("unshare: Operation not permitted\n", tmp_path)
    assert text.endswith(f"({cause}): run this as root, or with sudo{remedy}")


@pytest.mark.parametrize(
    ("path", "longer"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
        ("/mine:/usr/sbin:/bin", "/mine:/usr/sbin:/bin:/usr/local/sbin:/sbin"),
        ("/usr/local/sbin:/usr/sbin:/sbin", "/usr/local/sbin:/usr/sbin:/sbin"),
    ],
)
def test_what_a_users_path_lacks_is_looked_for_last(path, longer):
    assert with_system_folders(path) == longer
