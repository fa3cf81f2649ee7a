"""Open MPI over the same links, with its ring: its best all-reduce for large tensors."""

import os
import shlex
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("openmpi_rank.cc")
FORCED_RING = {
    "coll_tuned_use_dynamic_rules": 1,
    "coll_tuned_allreduce_algorithm": 4,
}
# Only TCP over the shaped interface. Ranks yield while they wait, because they spin.
TRANSPORT = {
    "btl": "tcp,self",
    "btl_tcp_if_include": "eth0",
    "oob_tcp_if_include": "eth0",
    "pml": "ob1",
    "mpi_yield_when_idle": 1,
}


def compile_rank(folder):
    program = Path(folder) / "openmpi_rank"
    command = ["mpicxx", "-O2", "-std=c++20", str(SOURCE), "-o", str(program)]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        raise SystemExit(
            "bench: mpicxx not found: run tools/setup --bench, or use --without-mpi"
        ) from None
    return program


def start(program, hosts, socket, job, folder):
    """One rank per host; mpirun reaches the other hosts through a shell script instead of ssh."""
    agent = _write_agent(hosts, Path(folder) / f"agent-{job}")
    options = {**TRANSPORT, **FORCED_RING, "plm_rsh_agent": agent, "orte_keep_fqdn_hostnames": 1}
    words = ["mpirun", "--allow-run-as-root", "-n", len(hosts), "--bind-to", "none"]
    words += ["--host", ",".join(host.address for host in hosts)]
    for name, value in options.items():
        words += ["--mca", name, value]
    words += [program, socket, job]
    env = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1, "TMPDIR": folder}
    return hosts[0].start(*map(str, words), env=env)


def _write_agent(hosts, path):
    """`agent ADDRESS COMMAND...` runs a command on the host with this address."""
    lines = ["#!/bin/sh", "address=$1", "shift", "case $address in"]
    for host in hosts:
        inside = shlex.join(map(str, host.command("sh", "-c")))
        lines.append(f'  {host.address}) exec {inside} "$*" ;;')
    lines += ["esac", 'echo "no host has the address $address" >&2', "exit 1"]
    path.write_text("\n".join(lines) + "\n")
    os.chmod(path, 0o755)
    return path
