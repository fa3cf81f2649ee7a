"""Builds the network of a cluster file from namespaces, and runs `atp run` in it."""

import json
import os
import signal
import subprocess
from pathlib import Path

from lab.network import Network


class Cluster:
    """Has the racks, addresses and shaped links of `file`; each host knows only its name.

    Racks above racks are not supported. Latencies are ignored: namespaces on one machine wait much
    longer for its cores.
    """

    def __init__(self, folder, atp, file):
        self.atp, self.file = atp, file
        done = subprocess.run(
            [str(atp), "cluster", str(file), "--json"], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        site = json.loads(done.stdout)
        hosts = site["hosts"]
        assert all(rack["above"] == "core" for rack in site["racks"]), "racks above racks"
        racks = {rack["name"]: [] for rack in site["racks"]}
        for host in hosts:
            racks[host["rack"]].append(host["name"])
        addresses = {host["name"]: host["address"] for host in hosts}
        self.network = Network(folder, racks, addresses=addresses)
        self.service_hosts = [host["name"] for host in hosts if host["services"]]
        try:
            for host in hosts:
                self._shape(self.network.shape_host, host["name"], host["link"])
            for rack in site["racks"]:
                if len(racks) > 1:
                    self._shape(self.network.shape_uplink, rack["name"], rack["uplink"])
        except BaseException:
            self.network.delete()
            raise

    @staticmethod
    def _shape(shape, name, link):
        if link["bits_per_s"] > 0:
            shape(name, round(link["bits_per_s"] / 1e6))

    def __getitem__(self, name):
        return self.network[name]

    def run(self, host, *words, env=None):
        """Runs `atp run` on a host, as its user would type it."""
        command = (self.atp, "run", "--cluster", self.file, "--host", host, *words)
        return self.network[host].start(*command, env=env)

    def serve(self, *words, env=None):
        """Starts switches and servers; returns them by host once all of them listen."""
        services = {host: self.run(host, *words, env=env) for host in self.service_hosts}
        for service in services.values():
            self.network.wait_for_line(service, "is ready", 60)
        return services

    def start_job(self, hosts, *command, options=(), env=None):
        """Starts a job over the hosts, with one `atp run` on each; by default torch's ranks use the
        network.
        """
        words = ("--hosts", ",".join(hosts), *options, "--", *command)
        env = {"ATP_ALGORITHM": "innetwork", **(env or {})}
        return [self.run(host, *words, env=env) for host in hosts]

    def finish(self, job, seconds):
        """The outputs of a job by host; it must succeed in time."""
        outputs = []
        for part in job:
            code, output = self.network.wait(part, seconds)
            assert code == 0, output
            outputs.append(output)
        return outputs

    def kill_switch(self, rack):
        """Kills a rack's switch, which `atp run` restarts after a second."""
        for pid in self[f"{rack}0"].pids():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if command[1:2] == [b"switch"]:
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"no switch runs in rack {rack}")

    def delete(self):
        self.network.delete()
