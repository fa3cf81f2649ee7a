"""Checks whether this machine can create networks of namespaces, and runs commands where it can.

python -m lab.requirements     prints what is missing and what to do
"""

import functools
import os
import shutil
import sys
from pathlib import Path

from lab import user_namespace

# Debian has ip, tc, nft and ethtool outside of an ordinary user's PATH.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21


def missing(*tools):
    """What is missing and what to do, or None; `tools` are needed besides ip and tc."""
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    absent = [tool for tool in ("ip", "tc", *tools) if shutil.which(tool) is None]
    if absent:
        return f"{', '.join(absent)} not found: run tools/setup --dev"
    try:
        privileged()
    except user_namespace.Forbidden as problem:
        return str(problem)
    return None


def privileged(*words):
    """The command line that runs `words` where networks can be created."""
    return [*_way_in(), *map(str, words)]


@functools.cache
def _way_in():
    if may_make_networks(Path("/proc/self/status").read_text(), _can_write_netns()):
        return ()
    return user_namespace.make()


def may_make_networks(status, writable):
    """Whether this process may create networks by itself. `status` is its /proc/self/status.

    Being root is not enough: root in a container may not, nor may root in a user namespace in which
    `ip` cannot write to /run/netns.
    """
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return writable and all(effective >> one & 1 for one in (_CAP_NET_ADMIN, _CAP_SYS_ADMIN))


def _can_write_netns():
    folder = "/run/netns" if os.path.isdir("/run/netns") else "/run"
    return os.access(folder, os.W_OK | os.X_OK)


def with_system_folders(path):
    folders = path.split(os.pathsep)
    return os.pathsep.join([*folders, *(f for f in _SYSTEM_FOLDERS if f not in folders)])


if __name__ == "__main__":
    sys.exit(missing())
