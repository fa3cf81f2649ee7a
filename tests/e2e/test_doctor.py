"""`atp doctor` and a node that is sometimes kept waiting for its processor."""

import json
import socket
import threading
import time

import pytest

from .conftest import atp

PAUSE_S = 0.4


class PausingRelay(threading.Thread):
    """Relays UDP to a node. The first packet of more than 2,000 bytes starts a pause, after which
    those that came meanwhile are lost, as in a full queue, or relayed."""

    def __init__(self, node, loses):
        super().__init__(daemon=True)
        host, port = node.rsplit(":", 1)
        self.node = (host, int(port))
        self.loses = loses
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind((host, 0))
        self.back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.back.bind((host, 0))
        self.address = f"{host}:{self.front.getsockname()[1]}"
        self.pauses = 0
        self.start()
        threading.Thread(target=self.bring_back, daemon=True).start()

    def run(self):
        while True:
            packet, self.asker = self.front.recvfrom(70000)
            if len(packet) > 2000 and self.pauses == 0:
                self.pauses = 1
                time.sleep(PAUSE_S)
                self.front.setblocking(False)
                while self.loses:
                    try:
                        self.front.recv(70000)
                    except BlockingIOError:
                        break
                self.front.setblocking(True)
                if self.loses:
                    continue
            self.back.sendto(packet, self.node)

    def bring_back(self):
        while True:
            packet = self.back.recv(70000)
            self.front.sendto(packet, self.asker)


@pytest.mark.parametrize("loses", (False, True), ids=("and answers late", "and loses packets"))
def test_a_node_that_pauses_has_no_narrow_path(cluster, loses):
    cluster.start_server()
    relay = PausingRelay(cluster.server_address, loses)
    found = atp("doctor", relay.address, "--json")
    wrong = [one for one in json.loads(found.stdout)["findings"] if one["severity"] == "bad"]
    assert relay.pauses == 1
    assert not wrong
    assert found.returncode == 0
