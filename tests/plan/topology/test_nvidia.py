"""What `nvidia-smi topo -m` prints."""

import pytest

from atp.topology import nvidia

from .descriptions import CUBE, IRREGULAR, PAIRS, PCIE, SWITCHED, error_of, from_nvidia, has, matrix


def test_more_nvlinks_than_a_gpu_has_are_a_switch():
    (level,) = from_nvidia(SWITCHED).levels
    assert (level.count, level.kind, level.bandwidth) == (4, "switch", 300e9)


def test_pairs_are_ordered_as_they_are_connected():
    cluster = from_nvidia(PAIRS)
    top, pairs = cluster.levels
    assert (top.kind, top.bandwidth) == ("switch", 2 * 20e9)  # each GPU of a pair has a slot
    assert (pairs.kind, pairs.bandwidth) == ("pairs", 100e9)
    assert has(cluster.remarks, "CUDA_VISIBLE_DEVICES=0,2,1,3")


def test_pcie_classes_become_levels():
    levels = from_nvidia(PCIE).levels
    assert [level.name for level in levels] == ["host bridge", "PCIe switch", "gpu"]
    assert levels[0].bandwidth == 20e9
    assert {level.count for level in levels} == {2}


def test_an_irregular_machine_is_described_pair_by_pair():
    cluster = from_nvidia(CUBE)
    assert (cluster.pairs[0][2], cluster.pairs[0][3]) == (50e9, 20e9)
    (level,) = cluster.levels
    # Direct links are as fast as the fastest: the matrix has the slower pairs.
    assert (level.kind, level.bandwidth) == ("full", 50e9)


def test_unequal_nvlinks_are_described_pair_by_pair():
    cluster = from_nvidia(IRREGULAR)
    assert (cluster.pairs[0][1], cluster.pairs[0][2]) == (25e9, 50e9)


def test_unequal_sockets_are_a_switch_because_a_gpu_has_one_slot():
    cluster = from_nvidia(matrix(3, lambda a, b: "NODE" if {a, b} == {1, 2} else "SYS"))
    (level,) = cluster.levels
    assert (level.kind, level.bandwidth, cluster.pairs[0][1]) == ("switch", 32e9, 20e9)
    assert has(cluster.remarks, "between sockets share are not modelled")


def test_every_level_has_a_different_name():
    def path(a, b):
        return "PIX" if a // 2 == b // 2 else "PXB" if a // 4 == b // 4 else "PHB"

    names = [level.name for level in from_nvidia(matrix(8, path)).levels]
    assert len(names) == len(set(names)) == 3


def test_the_users_bandwidths_count():
    assert from_nvidia(SWITCHED, NV=50e9).levels[0].bandwidth == 600e9


def test_the_largest_machine_is_read_and_a_larger_one_refused():
    (level,) = from_nvidia(matrix(256, "SYS")).levels
    assert level.count == 256
    assert "found 257 GPUs, expected at most 256" in error_of(from_nvidia, matrix(257, "SYS"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the output of nvidia-smi topo -m"),
        ("GPU0\nGPU0 X\n", "t: found 1 GPU, expected two or more"),
        ("GPU0 GPU1\nGPU0 X PIX\n", "t:1: found 1 rows of GPUs, expected 2"),
        ("GPU0 GPU1\nGPU0 X FOO\nGPU1 PIX X\n", 't:2: GPU0, GPU1: found "FOO"'),
        ("GPU0 GPU1\nGPU0 X NV0\nGPU1 NV0 X\n", 't:2: GPU0, GPU1: found "NV0"'),
        ("GPU0 GPU1\nGPU0 X NV\u0664\nGPU1 NV\u0664 X\n", "t:2: GPU0, GPU1: found"),
        (
            "GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n",
            "t:3: GPU1, GPU0: the two halves of the matrix differ",
        ),
        ("GPU0 GPU1\nGPU0 X\nGPU1 PIX X\n", 't:2: GPU0, GPU1: found ""'),
        ("GPU0 GPU1\nGPU0 PIX PIX\nGPU1 PIX X\n", "X on the diagonal"),
    ],
)
def test_broken_text_is_named(text, message):
    assert message in error_of(from_nvidia, text, "t")


def test_old_versions_call_the_farthest_class_soc():
    assert nvidia.read(matrix(2, "SOC"), "t", {}).levels[0].bandwidth == 20e9
