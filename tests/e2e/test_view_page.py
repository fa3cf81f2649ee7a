"""The page of `atp view` in a real browser: what an operator sees, and when.

The pictures of docs/operate/view.md are made here, of real processes:

    ATP_WRITE_PICTURES=1 .venv/bin/python -m pytest tests/e2e/test_view_page.py -k operator
"""

import importlib.util
import json
import os
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = REPOSITORY / "docs" / "operate" / "view"
HOSTS = {"server-s1": "127.0.3.11", "switch-s": "127.0.3.10", "switch-a": "127.0.1.10",
         "switch-b": "127.0.2.10"}  # fmt: skip
SECONDS = 60
RACKS = 297  # with the spine and two servers 300 nodes


def neighbour(name):
    """A module of this folder, which is not a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = neighbour("browser").start_browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.quit()


class TwoRacks:
    """Two racks with a switch each, below a third with a switch and a server, all on loopback."""

    def __init__(self, cluster):
        self.cluster, self.port = cluster, cluster.switch_port
        self.file = cluster.folder / "two-racks.yaml"
        self.file.write_text(self._text())
        self.nodes = {name: self.start(name) for name in HOSTS}

    def _text(self):
        rack = "  - {{name: {0}, uplink: core, switch: {{host: {0}0, port: {1}}}, hosts: [{2}]}}"
        host = "{{name: {}, address: {}}}".format
        rows = [
            rack.format("a", self.port, host("a0", HOSTS["switch-a"])),
            rack.format("b", self.port, host("b0", HOSTS["switch-b"])),
            rack.format(
                "s",
                self.port,
                host("s0", HOSTS["switch-s"]) + ", " + host("s1", HOSTS["server-s1"]),
            ),
        ]
        servers = f"servers: [{{host: s1, port: {self.port}}}]"
        return "\n".join(["name: two racks", "racks:", *rows, servers, ""])

    def start(self, name):
        role = name.partition("-")[0]
        more = ["--upstream", "127.0.0.0/8"] if role == "switch" else ["--lease", "60"]
        command = [self.cluster.atp, role, "--listen", f"{HOSTS[name]}:{self.port}", *more]
        node = self.cluster.start(name, command)
        self.cluster.wait_until(lambda: "listening on" in node.output(), name, SECONDS)
        return node

    def start_job(self, job, racks):
        """A rank below the switch of each of these racks."""
        ranks = []
        for rank, rack in enumerate(racks):
            hops = (f"switch-{rack}", "switch-s", "server-s1")
            route = ",".join(f"{HOSTS[hop]}:{self.port}" for hop in hops)
            command = self.cluster.bench("-b", "64K", "-e", "64K", "-n", "1000000", "-w", "0")
            words = {"ATP_JOB": job, "ATP_ROUTE": route, "name": f"job{job}rank{rank}"}
            ranks.append(
                self.cluster.start_rank(rank, len(racks), ["nice", "-n", "10", *command], **words)
            )
        return ranks


class Page:
    """A running `atp view` and its page in the browser."""

    def __init__(self, cluster, browser, file):
        self.process = cluster.start(
            "view", [cluster.atp, "view", file, "--listen", "127.0.0.1:0", "--interval", "1"]
        )
        cluster.wait_until(lambda: "http://" in self.process.output(), "the view", SECONDS)
        self.url = re.search(r"http://\S+?/", self.process.output()).group()
        self.wait_until = cluster.wait_until
        self.browser = browser
        browser.open(self.url)

    def document(self):
        with urllib.request.urlopen(self.url + "view.json", timeout=SECONDS) as reply:
            return json.load(reply)

    def wait_for(self, text, selector="body"):
        """Waits until the page shows it; fails with what it shows instead."""
        end = time.monotonic() + SECONDS
        while text not in (shown := self.browser.text(selector)):
            assert time.monotonic() < end, f"'{text}' is not in {selector}, but:\n{shown}"
            time.sleep(0.05)

    def wait_for_news(self, text):
        """The same for an event, which the page must show within two seconds of its time."""
        self.wait_for(text, "#events")
        seen = time.time()
        events = self.document()["events"]
        known = next(one["time_s"] for one in reversed(events) if text in one["text"])
        assert seen - known < 2, f"{text}: known at {known}, seen at {seen}"

    def asked_nobody_else(self):
        return [url for url in self.browser.requests() if not url.startswith((self.url, "data:"))]


def picture(browser, name, folder):
    path = (PICTURES if os.environ.get("ATP_WRITE_PICTURES") else folder) / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    browser.save(path)
    assert path.stat().st_size > 10_000, "there is something to see"


def test_an_operator_sees_who_is_frozen_and_which_switch_is_dead(cluster, browser, tmp_path):
    racks = TwoRacks(cluster)
    page = Page(cluster, browser, racks.file)
    page.wait_for("All is well; no job is running", "#verdict")
    assert browser.text("#up") == "4 of 4"
    assert browser.driver.title == "✓ all well – atp two racks"
    time.sleep(2)
    picture(browser, "idle", tmp_path)

    ranks = racks.start_job(7, "aabb")
    racks.start_job(8, "ab")
    page.wait_for_news("job 7 runs with 4 ranks")
    page.wait_for_news("job 8 runs with 2 ranks")
    page.wait_for("job 7: ranks 0–1", "#tree")
    page.wait_for("job 8: rank 1", "#tree")
    page.wait_for("summed", "#tree")
    time.sleep(5)
    picture(browser, "two-jobs", tmp_path)

    ranks[2].signal(signal.SIGSTOP)
    page.wait_for_news("job 7 waits for rank 2 (127.0.0.1)")
    page.wait_for("job 7 waits for rank 2", "#verdict")
    page.wait_for("job 7: rank 2 stuck", "#tree")
    page.wait_for("job waits for it", "#jobs")
    assert "✖" in browser.driver.title
    time.sleep(3)
    picture(browser, "rank-frozen", tmp_path)
    ranks[2].signal(signal.SIGCONT)
    page.wait_for_news("job 7 no longer waits")

    racks.nodes["switch-b"].kill()
    page.wait_for_news(f"switch-b ({HOSTS['switch-b']}:{racks.port}) is dead: Connection refused")
    page.wait_for("job 7: ranks 2–3 detached", "#tree")
    page.wait_for("dead since", "#tree")
    time.sleep(2)
    picture(browser, "switch-killed", tmp_path)

    racks.nodes["switch-b"] = racks.start("switch-b")
    page.wait_for_news(f"switch-b ({HOSTS['switch-b']}:{racks.port}) answers again")
    assert browser.complaints() == []
    assert page.asked_nobody_else() == []

    page.process.kill()
    page.wait_for("nothing received from atp view since", "#old")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    nodes = neighbour("fake_nodes").FakeNodes(RACKS)
    nodes.file = tmp_path_factory.mktemp("many") / "cluster.yaml"
    nodes.file.write_text(nodes.cluster_file())
    yield nodes
    nodes.close()


@pytest.fixture
def big(cluster, browser, many):
    """The page of 300 nodes, all well."""
    many.silent, many.stuck, many.hostile = set(), None, None
    page = Page(cluster, browser, many.file)
    page.wait_for("All is well", "#verdict")
    page.wait_for("300 of 300", "#up")
    yield page
    assert browser.complaints() == []
    assert page.asked_nobody_else() == []


def tree_items(browser):
    return browser.ask(
        "return [...document.querySelectorAll('[role=treeitem]')].map((one) => one.ariaLabel)"
    )


def focused(browser):
    return browser.ask("return document.activeElement.ariaLabel ?? document.activeElement.id")


def test_300_nodes_that_are_well_are_a_handful_of_lines(big, browser):
    assert "297 nodes, all well" in tree_items(browser)
    assert len(tree_items(browser)) < 10
    assert browser.ask("return document.querySelectorAll('*').length") < 1500
    assert len(browser.texts("#nodes tbody tr")) == 16
    assert "Show all 300 nodes" in browser.texts("#nodes button")


def test_of_300_nodes_the_one_in_trouble_is_seen_at_once(big, browser, many):
    many.silent = {many.switch(123)}
    many.stuck = 123 * 3 + 1
    big.wait_for_news(f"switch-r123 ({many.switch(123)}:{many.port}) does not answer")
    big.wait_for("job 7 waits for rank 370 (10.0.0.2)", "#verdict")
    assert any("switch-r123: does not answer since" in one for one in tree_items(browser))
    assert "296 nodes, all well" in tree_items(browser)
    assert browser.texts("#nodes tbody th")[0] == "switch-r123"
    assert browser.texts("#jobs tr.ranks tbody th")[0] == "rank 370"


def test_all_300_are_there_for_whoever_wants_them_and_keys_still_work(big, browser):
    browser.press("/")
    assert focused(browser) == "filter"
    browser.press("r", "1", "4", "2")
    big.wait_for("1 of 300 nodes", "#filtered")
    assert [one for one in tree_items(browser) if "r142" in one]
    assert len(tree_items(browser)) < 8
    browser.press("ESCAPE")
    big.wait_for("297 nodes, all well", "#tree")

    browser.ask("focusItem(placed[0].key)")
    browser.press("END")
    while "all well" not in focused(browser):
        browser.press("ARROW_UP")
    browser.press("ARROW_RIGHT")
    browser.ask("for (const one of document.querySelectorAll('#nodes button')) one.click()")
    assert len([one for one in tree_items(browser) if one.startswith("switch")]) == 298
    assert len(browser.texts("#nodes tbody tr")) == 300
    # New views arrive meanwhile, and the reader's place is kept.
    browser.press("ARROW_DOWN", "ARROW_DOWN")
    before = focused(browser), big.document()["time_s"]
    big.wait_until(lambda: big.document()["time_s"] > before[1] + 2, "more views", SECONDS)
    assert focused(browser).split(":")[0] == before[0].split(":")[0]
    browser.press("ARROW_LEFT", "ARROW_LEFT", "ARROW_LEFT")
    browser.press("HOME")
    assert focused(browser).startswith("server server-s1")


def test_what_a_node_writes_is_shown_as_text(big, browser, many):
    many.hostile = "<img src=x onerror=document.title='owned'>"
    many.stuck = 4
    big.wait_for(f"job 7 waits for rank 4 ({many.hostile})", "#verdict")
    big.wait_for(many.hostile[:20], "#tree")
    assert browser.ask("return document.images.length") == 0
    assert browser.driver.title != "owned"


def test_the_page_can_be_read_by_someone_who_cannot_see_it(big, browser):
    for selector in ("table", "[role=log]", "[role=tree]", "#filter", "main", "h1"):
        assert browser.ask("return document.querySelector(arguments[0]) !== null", selector)
    assert "" not in browser.texts("caption")
    headless = "return document.querySelectorAll('thead th:not([scope=col])').length"
    assert browser.ask(headless) == 0
    assert browser.ask("return document.querySelector('[role=log]').ariaLive") == "polite"
    unnamed = (
        "return [...document.querySelectorAll('button,[role=treeitem]')]"
        ".filter((one) => !one.ariaLabel && !one.textContent).length"
    )
    assert browser.ask(unnamed) == 0
    ways_in = "return document.querySelectorAll('[role=treeitem][tabindex=\"0\"]').length"
    assert browser.ask(ways_in) == 1, "one stop of the Tab key, the arrows do the rest"
    browser.ask("document.activeElement.blur()")
    browser.press("TAB")
    assert browser.ask("return document.activeElement.className") == "skip"


CONTRAST = """
const style = getComputedStyle(document.documentElement);
const light = (name) => {
  const hex = style.getPropertyValue(name).trim();
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const [a, b] = [light(arguments[0]), light(arguments[1])];
return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_stand_out_from_their_background(big, browser, scheme):
    browser.set_media(prefers_color_scheme=scheme)
    for text in ("--text", "--quiet", "--good", "--note", "--warning", "--bad"):
        grounds = ["--card", "--back"]
        if text in ("--good", "--note", "--warning", "--bad"):
            grounds.append(f"{text}-back")
        if text in ("--text", "--quiet"):
            grounds += ["--warning-back", "--bad-back", "--good-back"]
        for ground in grounds:
            ratio = browser.ask(CONTRAST, text, ground)
            assert ratio >= 4.5, f"{text} on {ground}, {scheme}: {ratio:.1f}"
    browser.set_media(prefers_color_scheme="light")
