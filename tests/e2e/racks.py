"""Three racks on loopback, two with ranks and one with a server: an `atp run` per host."""

import os
import re
import subprocess
import time

from lab.ports import free_port

from .conftest import BUILD

ATP = BUILD / "bin" / "atp"
LIMIT_S = 60

RACKS = """\
racks:
  - name: a
    uplink: core
    switch: a0
    hosts:
      - {name: a0, address: 127.0.1.1}
      - {name: a1, address: 127.0.1.2, ranks: 2}
  - name: b
    uplink: core
    switch: b0
    hosts:
      - {name: b0, address: 127.0.2.1}
      - {name: b1, address: 127.0.2.2, ranks: 2}
  - name: s
    uplink: core
    switch: s0
    hosts:
      - {name: s0, address: 127.0.3.1}
      - {name: s1, address: 127.0.3.2}
servers: [s1]
"""


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "cluster.yaml"
        port = free_port()
        text = re.sub(r"switch: (\w+)", rf"switch: {{host: \1, port: {port}}}", RACKS)
        self.file.write_text(text.replace("[s1]", f"[{{host: s1, port: {port}}}]"))
        self.port = port
        self.processes = []

    def start(self, host, *arguments):
        log = self.folder / f"{host}-{len(self.processes)}.log"
        command = [ATP, "run", "--cluster", self.file, "--host", host, *arguments]
        # Each rank sends by itself: the tests are about the network.
        env = {"ATP_HIERARCHY": "0", **os.environ}
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)
        process.log = log
        self.processes.append(process)
        return process

    def wait_for(self, process, text):
        end = time.monotonic() + LIMIT_S
        while text not in process.log.read_text():
            assert process.poll() is None and time.monotonic() < end, process.log.read_text()
            time.sleep(0.02)

    def serve(self, *hosts):
        services = [self.start(host) for host in hosts]
        for service in services:
            self.wait_for(service, "is ready")
        return services
