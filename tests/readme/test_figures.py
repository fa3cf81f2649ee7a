"""The README's figures for N = 4 are what the command beside them computes."""

import re

from tests.pages import REPOSITORY

from .conftest import type_in

COMMAND = "atp plan aggregation --cluster examples/clusters/four-equal-hosts.yaml"


def test_the_readme_names_the_command_and_has_its_figures(sandbox):
    page = " ".join((REPOSITORY / "README.md").read_text().split())
    assert f"`{COMMAND}`" in page
    said = type_in(sandbox, COMMAND)

    ring = float(re.search(r"A ring takes ([\d.]+) ms", said)[1])
    as_it_stands = float(re.search(r"as it stands .*?([\d.]+) ms", said)[1])
    times = f"{as_it_stands / ring:.1f} times as long for N = 4"
    assert f"in the network a sum would take {times}" in page

    link = float(re.search(r"more than ([\d.]+) Gbit/s", said)[1])
    of_a_rank = float(re.search(r"tensor at ([\d.]+) Gbit/s", said)[1])
    assert f"({link / of_a_rank:.1f} times for N = 4, with headers)" in page

    hosts = re.search(r"With R = (\d+) or more aggregation hosts", said)[1]
    assert f"({hosts} hosts for N = 4)" in page
