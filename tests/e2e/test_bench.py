"""`atp bench allreduce` under `atp run`: its table, its check of every element, its exit codes."""

import os
import re
import subprocess

import pytest


def run_bench(cluster, ranks, *options):
    command = [
        cluster.atp,
        "run",
        "-n",
        str(ranks),
        "--values",
        "350",
        "--",
        *cluster.bench(*options),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def rows_of(output):
    return [line.split() for line in output.splitlines() if line and not line.startswith("#")]


def test_prints_one_checked_row_for_each_size(cluster):
    result = run_bench(cluster, 3, "-b", "1K", "-e", "64K", "-f", "8", "-n", "3", "-w", "1")
    assert result.returncode == 0, result.stderr
    rows = rows_of(result.stdout)
    assert [row[:4] for row in rows] == [
        ["1024", "256", "float", "sum"],
        ["8192", "2048", "float", "sum"],
        ["65536", "16384", "float", "sum"],
    ]
    for size, *_, time_us, algbw, busbw, wrong in rows:
        assert float(algbw) == pytest.approx(int(size) / float(time_us) / 1e3, abs=0.002)
        assert float(busbw) == pytest.approx(float(algbw) * 4 / 3, abs=0.002)
        assert wrong == "0"
    assert "# atp bench allreduce: 3 ranks, route 127.0.0.1:" in result.stdout
    assert "350 values per fragment" in result.stdout
    assert result.stdout.splitlines()[-2] == "# Out of bounds values : 0 OK"
    assert result.stdout.splitlines()[-1].startswith("# Avg bus bandwidth    : ")


def test_averages_and_shows_the_bounds_of_a_bandwidth(cluster):
    options = ("-b", "8K", "-e", "8K", "-n", "2", "-w", "0", "--average", "--bandwidth", "1")
    result = run_bench(cluster, 2, *options)
    assert result.returncode == 0, result.stderr
    (row,) = rows_of(result.stdout)
    assert row[3] == "avg"
    assert row[7] == "0"
    # 8,192 bytes at 1 Gbit/s; a ring of two ranks moves as much.
    assert row[8:] == ["65.5", "65.5"]


def test_columns_are_right_aligned_under_their_names(cluster):
    sizes = ("-b", "4", "-e", "1M", "-f", "512", "-n", "2", "-w", "0", "--bandwidth", "1")
    result = run_bench(cluster, 2, *sizes)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if re.match(r"#?  ", line)]
    ends = [[word.end() for word in re.finditer(r"\S+", line)] for line in lines]
    names, units, *rows = ends
    columns = names[1:]  # after the #
    assert set(units[1:]) <= set(columns), result.stdout
    assert len(rows) == 3
    assert all(row == columns for row in rows), result.stdout


def digest_of(output):
    (line,) = [line for line in output.splitlines() if line.startswith("# Digest of ")]
    head, _, tail = line.partition(" : ")
    digest, _, equal = tail.partition(", ")
    assert equal == "the same on all ranks"
    return head, digest


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--wire", "int16"), "float"),
        (("--exact",), "float"),
        (("--dtype", "bfloat16"), "bfloat16"),
        (("--dtype", "float16", "--wire", "int16", "-a"), "half"),
        (("--dtype", "int32"), "int32"),
    ],
)
def test_checks_every_type_and_wire_and_digests_the_results(cluster, options, name):
    sizes = ("-b", "1K", "-e", "64K", "-f", "64", "-n", "2", "-w", "1")
    results = [run_bench(cluster, 3, *sizes, *options, "--digest") for _ in range(2)]
    for result in results:
        assert result.returncode == 0, result.stderr
        assert [(row[2], row[7]) for row in rows_of(result.stdout)] == [(name, "0")] * 2
    first, again = (digest_of(result.stdout) for result in results)
    assert first == again
    assert first[0] == "# Digest of 6 results"
    assert len(first[1]) == 32


def test_the_same_numbers_have_one_digest_whatever_they_travel_as(cluster):
    sizes = ("-b", "4K", "-e", "256K", "-f", "64", "-n", "2", "-w", "0")
    digests = {
        digest_of(run_bench(cluster, 3, *sizes, "--digest", *wire).stdout)
        for wire in ((), ("--wire", "int16"), ("--exact",))
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--wire", "int16", "--exact"), "exact=1 sends float32 and wire=int16 sends int16"),
        (("--dtype", "int32", "--average"), "--dtype int32: int32 has no average"),
        (("--wire", "int8"), "--wire"),
        (("--dtype", "float64"), "--dtype"),
    ],
)
def test_wrong_options_are_named_and_end_with_2(cluster, options, complaint):
    result = run_bench(cluster, 2, *options)
    assert result.returncode == 2
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "WORLD_SIZE is not set"),
        (("-b", "8K", "-e", "4K"), "-b 8192 -e 4096: expected sizes of at least 4 bytes"),
        (("-n", "0"), "--iters"),
        (("-b", "much"), "--minbytes"),
    ],
)
def test_wrong_use_is_named_and_ends_with_2(cluster, options, complaint):
    environment = {k: v for k, v in os.environ.items() if k != "WORLD_SIZE"}
    result = subprocess.run(
        cluster.bench(*options), capture_output=True, text=True, timeout=20, env=environment
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert complaint in result.stderr
