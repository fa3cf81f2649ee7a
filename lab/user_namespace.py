"""A user namespace in which an ordinary user may make networks, as root may everywhere.

It lasts as long as this process: even if it is killed, nothing is left of its networks and of what
ran in them. Files and processes still belong to the user; inside they are root's.
"""

import subprocess
from pathlib import Path

# `ip netns` wants to write /run/netns. Where root has not made that folder, the whole of /run is
# replaced, and what was in it bound in again: a user's TMPDIR may be there.
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

# What forbids user namespaces: a file under /proc/sys, the value that does, one that does not.
_SYSCTLS = (
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "15000"),
    ("user/max_net_namespaces", "0", "15000"),
    ("user/max_mnt_namespaces", "0", "15000"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
)


class Forbidden(Exception):
    """Its text says what forbids user namespaces, and what to do."""


_holders = []  # As long as we hold their standard input, and so until this process ends.


def make():
    """Makes one; the words before a command that make it run there, with the process id it has."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", _HOLD]
    # A session of its own: Ctrl-C is for those who still want to delete their networks.
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
    """`said`: the complaint of the command that failed; `sysctls`: /proc/sys."""
    cause, remedy = (said.strip() or "no reason given").splitlines()[-1], ""
    for name, forbids, permits in _SYSCTLS:
        file = sysctls / name
        if file.exists() and file.read_text().strip() == forbids:
            setting = name.replace("/", ".")
            cause, remedy = f"{setting} is {forbids}", f", or set sysctl {setting}={permits}"
            break
    return (
        "network namespaces need root or a user namespace, and this system permits no user "
        f"namespace ({cause}): run this as root, or with sudo{remedy}"
    )
