"""What NCCL writes to the file named by NCCL_TOPO_DUMP_FILE."""

import pytest

from atp.topology import nccl

from .descriptions import (
    bridge,
    bus,
    cpu,
    error_of,
    from_nccl,
    gpu,
    has,
    nic,
    nvlink,
    pci,
    sockets,
    system,
    to_switch,
)

LANE = 16e9 / 8 * 128 / 130  # of the fourth generation


def levels_of(text, **given):
    return from_nccl(text, **given).levels


def test_the_pcie_tree_becomes_levels_with_the_speeds_of_its_links():
    machine = from_nccl(sockets())
    assert [level.name for level in machine.levels] == ["host bridge", "PCIe switch", "gpu"]
    assert {(level.count, level.kind) for level in machine.levels} == {(2, "switch")}
    rates = [level.bandwidth for level in machine.levels]
    assert rates == pytest.approx([20e9, 8 * LANE, 16 * LANE])
    assert has(machine.remarks, "20 GB/s is typical")
    assert machine.gpus == 8


def test_given_bandwidths_replace_the_files():
    machine = from_nccl(sockets(), PCIE=5e9, SYS=7e9)
    assert [level.bandwidth for level in machine.levels] == [7e9, 5e9, 5e9]
    assert not has(machine.remarks, "typical")


def test_the_slowest_link_of_a_level_counts():
    text = system(cpu(0, gpu(0) + gpu(1)), cpu(1, gpu(2) + gpu(3, "", 4)))
    assert levels_of(text)[1].bandwidth == pytest.approx(4 * LANE)


def test_a_slot_narrower_than_the_sockets_link_counts():
    """One GPU per socket, so that its slot is part of the way to the other."""
    text = system(cpu(0, bridge(0, gpu(0), 4)), cpu(1, bridge(1, gpu(1), 4)))
    (level,) = levels_of(text)
    assert level.bandwidth == pytest.approx(4 * LANE)


def test_nvlinks_to_switches_add_up():
    links = to_switch("0000:05:00.0", 5) + to_switch("0000:06:00.0", 4)
    (level,) = levels_of(system(cpu(0, "".join(gpu(at, links, 16, 90) for at in range(4)))))
    assert (level.kind, level.count, level.bandwidth) == ("switch", 4, 9 * 25e9)


def test_three_gpus_at_an_nvswitch_are_not_connected_directly():
    """So few links that they could also be direct."""
    gpus = "".join(gpu(at, to_switch("fffffff:ffff:ff", 6)) for at in range(3))
    (level,) = levels_of(system(cpu(0, gpus)))
    assert level.kind == "switch"


@pytest.mark.parametrize(
    ("sm", "bandwidth"),
    [(60, 20e9), (70, 25e9), (80, 25e9), (86, 14.0625e9), (90, 25e9), (100, 50e9)],
)
def test_an_nvlinks_bandwidth_is_that_of_its_generation(sm, bandwidth):
    text = system(cpu(0, gpu(0, nvlink(1, 4), 16, sm) + gpu(1, nvlink(0, 4), 16, sm)))
    (level,) = levels_of(text)
    assert (level.kind, level.bandwidth) == ("pairs", 4 * bandwidth)
    assert levels_of(text, NV=1e9)[0].bandwidth == 4e9


def test_a_shared_uplink_counts_in_proportion():
    """Pairs joined by NVLink across two PCIe switches share the switches' uplinks."""
    left = bridge(0, gpu(0, nvlink(2, 4)) + gpu(1, nvlink(3, 4)), 8)
    right = bridge(1, gpu(2, nvlink(0, 4)) + gpu(3, nvlink(1, 4)), 8)
    machine = from_nccl(system(cpu(0, left + right)))
    assert machine.levels[0].bandwidth == pytest.approx(2 * 4 * LANE)  # half of each uplink
    assert machine.levels[1].kind == "pairs"
    assert machine.order == "0,2,1,3"


def test_an_irregular_machine_is_described_pair_by_pair():
    machine = from_nccl(system(cpu(0, bridge(0, gpu(0) + gpu(1, "", 8)) + gpu(2, "", 4))))
    assert machine.pairs[0][1:] == pytest.approx([8 * LANE, 4 * LANE])


def test_gpus_are_in_the_order_of_their_numbers():
    machine = from_nccl(
        system(cpu(1, bridge(0, gpu(6) + gpu(4))), cpu(0, bridge(1, gpu(5) + gpu(7))))
    )
    assert len(machine.levels) == 2
    assert machine.order == "4,6,5,7"


def test_network_cards_add_up_unless_one_has_no_speed():
    gpus = gpu(0) + gpu(1)
    card = pci("0000:70:00.0", "0x020700", nic("a", "200000"))
    assert from_nccl(system(cpu(0, gpus + card + nic("b", "100000")))).network == 37.5e9
    assert from_nccl(system(cpu(0, gpus + card + nic("a", "100000")))).network == 25e9
    assert from_nccl(system(cpu(0, gpus + card + nic("b", "-1")))).network == 0
    assert from_nccl(system(cpu(0, gpus))).network == 0


UNKNOWN = pci(bus(0), "0x030200", '<gpu dev="0" sm="80" rank="0"/>\n', width=255, speed="Unknown")


@pytest.mark.parametrize(
    ("inside", "remark"),
    [
        (UNKNOWN + gpu(1), "lacks the speed of some PCIe links"),
        (gpu(0, nvlink(9, 4)) + gpu(1), "NVLinks to GPUs that are not in the file"),
        (gpu(0, '<c2c bw="400000" count="1"/>\n') + gpu(1), "c2c"),
        (bridge(0, gpu(0) + gpu(1) + '<pcilink target="0000:81:00.0"/>\n'), "pcilink"),
    ],
)
def test_assumptions_and_omissions_are_reported(inside, remark):
    assert has(from_nccl(system(cpu(0, inside))).remarks, remark)


def test_what_needs_no_assumption_has_no_remark():
    assert from_nccl(system(cpu(0, gpu(0) + gpu(1)))).remarks == []


VALID = system(cpu(0, gpu(0, nvlink(1, 4)) + gpu(1, nvlink(0, 4)) + nic("a", "200000")), cpu(1, ""))
# What replaces what in VALID, where the error is, and what else it says.
MISTAKES = {
    "another element": (
        ('<system version="1">', '<graphs version="1">'),
        "t:19: not XML (mismatched tag)",
        "",
    ),
    "another file": (
        (VALID, '<graphs version="1"/>'),
        't:1: graphs: found the element "graphs"',
        "system",
    ),
    "AMD's version": (
        ('version="1"', 'version="2"'),
        't:1: system.version: found "2"',
        "RCCL's version 2 is for AMD's GPUs",
    ),
    "no version": ((' version="1"', ""), "t:1: system.version: found nothing", "expected this"),
    "an unknown element": (
        ("<nic>", "<nvme/><nic>"),
        't:13: nvme: found an unknown element in "cpu"',
        "expected pci or nic",
    ),
    "an unknown link": (
        ("<nvlink", "<xgmi"),
        't:5: xgmi: found an unknown element in "gpu"',
        "AMD's GPUs are not supported",
    ),
    "an unknown class of link": (
        ('tclass="0x030200"', 'tclass="0x050000"'),
        't:5: nvlink.tclass: found "0x050000"',
        "0x068000 (an NVSwitch)",
    ),
    "a link without a class": ((' tclass="0x030200"', ""), "t:5: nvlink.tclass: found nothing", ""),
    "a link without a target": (
        ('target="0000:11:00.0" ', ""),
        "t:5: nvlink.target: found nothing",
        "",
    ),
    "a link to the GPU itself": (
        ('0000:11:00.0" count', '0000:10:00.0" count'),
        "t:5: nvlink.target: found the GPU itself",
        "another GPU",
    ),
    "no links": (
        ('count="4"', 'count="0"'),
        't:5: nvlink.count: found "0"',
        "a whole number from 1 to 1000",
    ),
    "a link in one direction only": (
        ('count="4"', 'count="3"'),
        "t:9: gpu.nvlink: found 4 NVLinks",
        "line 4, but 3 back",
    ),
    "an invalid speed": (
        ("16.0 GT/s PCIe", "16.0 Gb/s"),
        't:3: pci.link_speed: found "16.0 Gb/s"',
        "2.5, 5, 8, 16, 32 or 64 GT/s",
    ),
    "an invalid width": (
        ('link_width="16"', 'link_width="15"'),
        't:3: pci.link_width: found "15"',
        "1, 2, 4, 8, 12, 16 or 32",
    ),
    "a GPU of NCCL_TOPO_FILE": (
        ('<gpu dev="0" sm="80" rank="0" gdr="1">\n' + nvlink(1, 4) + "</gpu>\n", ""),
        "t:3: pci: found a GPU without its element gpu",
        "NCCL_TOPO_DUMP_FILE",
    ),
    "no rank": (('rank="0" ', ""), "t:4: gpu.rank: found nothing", ""),
    "no generation": (('sm="80"', 'sm="new"'), 't:4: gpu.sm: found "new"', "a whole number"),
    "a part of a GPU": (('gdr="1"', 'mlopart="0"'), "t:4: gpu.mlopart: found a part", "whole"),
    "the same GPU twice": (
        ('dev="1"', 'dev="0"'),
        "t:9: gpu: found the GPU on line 4 again",
        "a different busid and dev",
    ),
    "two GPUs in one device": (
        ("</gpu>\n", '</gpu>\n<gpu dev="7" sm="80" rank="7"/>\n'),
        "t:7: gpu: found a second GPU in one device",
        "one",
    ),
    "the same NUMA node twice": (
        ('numaid="1"', 'numaid="0"'),
        "t:17: cpu.numaid: found the NUMA node 0 twice",
        "once",
    ),
    "two hosts in one file": (
        ('<cpu host_hash="0x1" numaid="1"', '<cpu host_hash="0x2" numaid="1"'),
        "t:17: cpu.host_hash: found a second host",
        "NCCL_MNNVL_ENABLE=0",
    ),
    "an invalid speed of a card": (
        ('speed="200000"', 'speed="fast"'),
        't:14: net.speed: found "fast"',
        "Mbit/s",
    ),
    "text between elements": (
        ("<nic>", "<nic>GPU0"),
        't:13: nic: found the text "GPU0"',
        "elements only",
    ),
    "a truncated file": (("</cpu>\n</system>\n", ""), "t:", "was the file truncated?"),
    "no GPU": ((VALID, system(cpu(0, ""))), "t: found no GPU", "NCCL_TOPO_DUMP_FILE"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_is_named_by_line_and_key(mistake):
    (right, wrong), begin, rest = MISTAKES[mistake]
    assert right in VALID
    error = error_of(nccl.read, VALID.replace(right, wrong, 1), "t", {})
    assert error.startswith(begin) and rest in error, error


def test_the_file_of_these_mistakes_is_valid_without_them():
    assert nccl.read(VALID, "t", {}).gpus == 2
