"""Three hundred nodes that exist only as answers to `atp status`, each at an address of loopback.

One listener accepts the connections to its port at all addresses; the address that was asked tells
it which node to be.
"""

import json
import selectors
import socket
import threading

from lab.ports import free_ports

RANKS_PER_RACK = 3
JOB = 7


class FakeNodes:
    """Racks with a switch each, below a spine with two servers; rack r has the ranks from 3r on.

    `silent` are addresses that take connections and say nothing; `stuck` is a rank that the job
    waits for; `hostile` is a text that appears wherever a node may write one.
    """

    def __init__(self, racks):
        self.racks = racks
        self.port = free_ports(1)[0]
        self.silent, self.stuck, self.hostile = set(), None, None
        self.asked = {}
        self.listener = socket.create_server(("", self.port), backlog=2000)
        self.stop_reader, self.stop_writer = socket.socketpair()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def switch(self, rack):
        return f"127.1.{rack // 250}.{1 + rack % 250}"

    SPINE, SERVERS = "127.2.0.1", ("127.2.0.2", "127.2.0.3")

    def cluster_file(self):
        port = self.port
        rows = [
            f"  - {{name: r{rack:03}, uplink: core, switch: {{host: h{rack:03}, port: {port}}}, "
            f"hosts: [{{name: h{rack:03}, address: {self.switch(rack)}}}]}}"
            for rack in range(self.racks)
        ]
        spine = (
            f"  - {{name: spine, uplink: core, switch: {{host: s0, port: {port}}}, hosts: "
            f"[{{name: s0, address: {self.SPINE}}}, {{name: s1, address: {self.SERVERS[0]}}}, "
            f"{{name: s2, address: {self.SERVERS[1]}}}]}}"
        )
        servers = f"servers: [{{host: s1, port: {port}}}, {{host: s2, port: {port}}}]"
        return "\n".join(["name: three hundred", "racks:", *rows, spine, servers, ""])

    def close(self):
        self.stop_writer.send(b"x")
        self.thread.join()
        self.listener.close()

    def _serve(self):
        waiting = selectors.DefaultSelector()
        waiting.register(self.listener, selectors.EVENT_READ)
        waiting.register(self.stop_reader, selectors.EVENT_READ)
        kept = []  # the connections of silent nodes
        while True:
            for key, _ in waiting.select():
                if key.fileobj is self.stop_reader:
                    return
                if key.fileobj is self.listener:
                    connection, _ = self.listener.accept()
                    waiting.register(connection, selectors.EVENT_READ)
                    continue
                connection = key.fileobj
                waiting.unregister(connection)
                address = connection.getsockname()[0]
                if address in self.silent:
                    kept.append(connection)
                    continue
                with connection:
                    connection.recv(100)
                    document = json.dumps(self._document(address)).encode()
                    connection.sendall(b"atp-status 1\n" + document)

    def _document(self, address):
        second = self.asked[address] = self.asked.get(address, 0) + 1
        if address in self.SERVERS:
            return self._server(address, second)
        if address == self.SPINE:
            ranks = list(range(self.racks * RANKS_PER_RACK))
            return self._switch(address, second, ranks, self.SERVERS[0])
        _, _, high, low = map(int, address.split("."))
        first = (high * 250 + low - 1) * RANKS_PER_RACK
        ranks = list(range(first, first + RANKS_PER_RACK))
        return self._switch(address, second, ranks, self.SPINE)

    def _job(self, ranks):
        stuck = None
        if self.stuck is not None:
            host = self.hostile or "10.0.0.2"
            stuck = {"ranks": [{"rank": self.stuck, "host": host}], "waited_s": 3.5}
            stuck["operation"] = "all_reduce #17 (1,000 values)"
        return {
            "job": JOB,
            "incarnation": 1,
            "first_stream": 0,
            "streams": 4,
            "world_size": self.racks * RANKS_PER_RACK,
            "values_per_fragment": 350,
            "joined": ranks,
            "detached": [],
            "left": [],
            "stuck": stuck,
            "lateness": [
                {"rank": rank, "operations": 800, "first_p50_us": 40, "first_p99_us": 900,
                 "last_p50_us": 60, "last_p99_us": 950}
                for rank in ranks
            ],
        }  # fmt: skip

    def _head(self, role, address, counters):
        version = self.hostile or "0.1.0"
        return {"role": role, "listen": f"{address}:{self.port}", "version": version,
                "wire_version": 2, "drops": {}, "counters": counters}  # fmt: skip

    def _server(self, address, second):
        job = self._job(list(range(self.racks * RANKS_PER_RACK)))
        fragments = 20_000 * second
        job |= {"state": "running", "missing": [], "lost": [], "waited_for": [],
                "fragments": fragments, "fragments_as_floats": 0, "has_switches": True,
                "fragments_summed_in_switches": fragments * 98 // 100}  # fmt: skip
        counters = {"packets_received": fragments, "udp_ip_bytes_in": 1500 * fragments}
        return {**self._head("server", address, counters), "jobs": [job]}

    def _switch(self, address, second, ranks, parent):
        job = self._job(ranks)
        job["parent"] = self.hostile or f"{parent}:{self.port}"
        job["aggregators"] = {"first": 0, "size": 16384, "quota": 0, "held": 40}
        sums = 20_000 * second
        counters = {
            "packets_received": 3 * sums, "gradients_received": 3 * sums,
            "gradients_summed": 3 * sums, "complete_sums_sent": sums, "collisions": 0,
            "udp_ip_bytes_in": 4500 * sums, "udp_ip_bytes_out": 1500 * sums,
        }  # fmt: skip
        aggregators = {"total": 16384, "held": 40, "partitions": 1, "quota": 0}
        return {**self._head("switch", address, counters), "aggregators": aggregators,
                "jobs": [job]}  # fmt: skip
