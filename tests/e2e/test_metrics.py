"""`--metrics`: what a switch and a server report, read by Prometheus's own parser."""

import re
import signal
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.ports import consecutive_ports, free_ports

SECONDS = 20


class Page:
    """The samples of a page at one time."""

    def __init__(self, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as reply:
            assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            self.text = reply.read().decode()
        self.families = {f.name: f for f in text_string_to_metric_families(self.text)}
        for family in self.families.values():
            assert family.documentation and family.type != "unknown", family.name

    def value(self, name, **labels):
        """The sum of the samples with these labels."""
        family = self.families.get(name.removesuffix("_total"))
        return family and sum(
            sample.value
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


class Nodes:
    """A switch, a server, and a running job of two ranks."""

    def __init__(self, cluster):
        self.server_port, self.switch_port = free_ports(2)
        cluster.start_server("--metrics", f"127.0.0.1:{self.server_port}")
        cluster.start_switch("--metrics", f"127.0.0.1:{self.switch_port}")
        self.ranks = cluster.start_ranks(2, cluster.endless_bench())
        cluster.wait_until(lambda: (self.server.value("atp_job_fragments_total") or 0) > 0, "sums")

    @property
    def server(self):
        return Page(self.server_port)

    @property
    def switch(self):
        return Page(self.switch_port)


@pytest.fixture
def nodes(cluster):
    return Nodes(cluster)


def test_both_count_what_happens(cluster, nodes):
    for role, address, page in (
        ("server", cluster.server_address, nodes.server),
        ("switch", cluster.switch_address, nodes.switch),
    ):
        assert page.value("atp_node_info", role=role, listen=address) == 1
        assert page.value("atp_job_ranks", job_id=str(cluster.job), state="joined") == 2
        assert page.value("atp_udp_datagrams_received_total") > 0
        assert page.value("process_cpu_seconds_total") > 0
        assert page.value("atp_metrics_left_out") == 0
        assert "atp_job_stuck_seconds" not in page.families
    assert nodes.server.value("atp_server_fragments_completed_total") > 0
    assert nodes.switch.value("atp_switch_gradients_summed_total") > 0
    assert nodes.switch.value("atp_switch_aggregators") == 16384
    assert nodes.switch.value("atp_switch_aggregators_enough") >= 16384
    assert nodes.switch.value("atp_job_aggregators_gain_ratio", job_id=str(cluster.job)) < 1
    first = nodes.server.value("atp_job_fragments_total")
    cluster.wait_until(lambda: nodes.server.value("atp_job_fragments_total") > first, "new sums")


def test_both_name_the_rank_that_holds_up_its_job(cluster, nodes):
    nodes.ranks[1].signal(signal.SIGSTOP)
    for name in ("server", "switch"):
        cluster.wait_until(
            lambda name=name: "atp_job_stuck_seconds" in getattr(nodes, name).families,
            f"the {name} to name it",
        )
        page = getattr(nodes, name)
        assert page.value("atp_job_stuck_seconds", rank="1") >= 1
        assert not page.value("atp_job_stuck_seconds", rank="0")


def test_each_lane_has_a_page(cluster):
    first, cluster.server_port = consecutive_ports(2), consecutive_ports(2)
    server = cluster.start_server("--lanes", "2", "--metrics", f"127.0.0.1:{first}")
    cluster.wait_until(lambda: server.output().count("listening on") == 2, "both lanes", SECONDS)
    for lane in range(2):
        listen = f"127.0.0.1:{cluster.server_port + lane}"
        assert Page(first + lane).value("atp_node_info", listen=listen) == 1


@pytest.mark.parametrize(
    "where, complaint",
    [
        ("9100", "--metrics .*9100"),
        ("127.0.0.1:70000", "--metrics .*70000"),
        ("203.0.113.77:9100", "--metrics 203.0.113.77:9100: "),
    ],
)
def test_an_impossible_address_is_an_error(cluster, where, complaint):
    command = [cluster.atp, "server", "--listen", "127.0.0.1:0", "--metrics", where]
    server = cluster.start("server", command)
    assert server.wait(10) != 0
    assert re.search(complaint, server.output()), server.output()
