"""A user namespace in which an ordinary user can create networks.

It lasts as long as this process; even if that is killed, nothing is left of its networks and their
processes. Files and processes still belong to the user; inside they appear to be root's.
"""

import subprocess
from pathlib import Path

# `ip netns` writes to /run/netns. If root has not created that folder, /run is replaced, and its
# contents are bound in again, because a user's TMPDIR may be there.
_HOLD = """
set -e
if [ -d /run/netns ]; then
  mount -t tmpfs tmpfs /run/netns
else
  cd /run
  mount -t tmpfs tmpfs /run
  for entry in *; do
    [ -d "$entry" ] || continue
    mkdir -p "/run/$entry"
    mount --no-canonicalize --rbind "./$entry" "/run/$entry"
  done
  mkdir -p /run/netns
fi
cd /
ip link set lo up
echo ready
exec >/dev/null 2>&1
cat  # ends when our process has ended
for namespace in /run/netns/*; do
  for pid in $(ip netns pids "${namespace##*/}"); do
    kill -KILL "$pid" || true
  done
done
"""

# Settings that forbid user namespaces: the file in /proc/sys, a forbidding value, a permitting one.
_SYSCTLS = (
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "15000"),
    ("user/max_net_namespaces", "0", "15000"),
    ("user/max_mnt_namespaces", "0", "15000"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
)


class Forbidden(Exception):
    """The message says what forbids user namespaces and what to do."""


_holders = []  # These live until their standard input closes, when this process ends.


def make():
    """Creates one; returns the words that run a command in it."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", _HOLD]
    # In its own session: Ctrl-C must not end it before others have deleted their networks.
    holder = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    if holder.stdout.readline() != "ready\n":
        _, said = holder.communicate()
        raise Forbidden(why_forbidden(said, Path("/proc/sys")))
    _holders.append(holder)
    return ("nsenter", "--target", str(holder.pid), "--user", "--net", "--mount",
            "--preserve-credentials")  # fmt: skip


def why_forbidden(said, sysctls):
    """`said`: the error output of the failed command; `sysctls`: /proc/sys."""
    cause, remedy = (said.strip() or "no reason given").splitlines()[-1], ""
    for name, forbids, permits in _SYSCTLS:
        file = sysctls / name
        if file.exists() and file.read_text().strip() == forbids:
            setting = name.replace("/", ".")
            cause, remedy = f"{setting} is {forbids}", f", or set sysctl {setting}={permits}"
            break
    return (
        "network namespaces need root or a user namespace, but this system permits no user "
        f"namespace ({cause}): run this as root, or with sudo{remedy}"
    )
