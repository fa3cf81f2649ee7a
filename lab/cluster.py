"""A network of namespaces as a cluster file describes it, and what `atp run` starts in it."""

import json
import os
import signal
import subprocess
from pathlib import Path

from lab.network import Network


class Cluster:
    """Racks, addresses and shaped links of `file`; each host knows only its name in the file.

    Racks that stand above others are not built. Latencies are not, either: namespaces of one
    machine wait for its cores far longer.
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
        """`atp run` on a host, as its user would type it there."""
        command = (self.atp, "run", "--cluster", self.file, "--host", host, *words)
        return self.network[host].start(*command, env=env)

    def serve(self, *words, env=None):
        """Switches and servers, by host; returns once all of them listen."""
        services = {host: self.run(host, *words, env=env) for host in self.service_hosts}
        for service in services.values():
            self.network.wait_for_line(service, "is ready", 60)
        return services

    def start_job(self, hosts, *command, options=(), env=None):
        """A job over the hosts, one `atp run` on each."""
        words = ("--hosts", ",".join(hosts), *options, "--", *command)
        return [self.run(host, *words, env=env) for host in hosts]

    def finish(self, job, seconds):
        """The outputs of a job that must succeed in time, by host."""
        outputs = []
        for part in job:
            code, output = self.network.wait(part, seconds)
            assert code == 0, output
            outputs.append(output)
        return outputs

    def kill_switch(self, rack):
        """SIGKILL to a rack's switch, which `atp run` starts again after a second."""
        for pid in self[f"{rack}0"].pids():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if command[1:2] == [b"switch"]:
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"no switch runs in rack {rack}")

    def delete(self):
        self.network.delete()
