"""Wrong flags and files end with exit code 2 and a message that says where and what.

The readers' own tables are in atp/config; here is what reaches a user.
"""

import pytest

CLUSTER = """\
name: small
levels:
  - name: rack
    count: 2
    kind: switch
    bandwidth: 100 Gbit/s per direction
  - name: host
    count: 4
    kind: switch
    bandwidth: 25 GB/s per direction
"""
MATRIX = """\
levels:
  - {name: gpu, count: 2, kind: full, bandwidth: 25 GB/s per direction}
point_to_point:
  unit: GB/s per direction
  rows:
    - [0, 25]
    - [25, 0, 25]
"""
MODEL = """\
{
  "model_type": "gpt2",
  "n_embd": 1024,
  "n_head": 16,
  "n_layer": 24
}
"""
FILES = ("--cluster", "cluster.yaml", "--model", "model.json")


def change(text, right, wrong):
    assert right in text
    return text.replace(right, wrong, 1)


def assert_refused(result, *texts, code=2):
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("atp plan")
    for text in texts:
        assert text in result.stderr


CLUSTER_MISTAKES = {
    "an unknown key": (
        *("count: 2", "cuont: 2"),
        *('cluster.yaml:4: levels[0]."cuont":', "did you mean count?"),
    ),
    "a key for later": (
        "name: small",
        "hosts: [a]",
        'cluster.yaml:1: "hosts":',
        "unknown key; use name",
    ),
    "an unknown unit": ("25 GB/s", "25 furlong/s", "cluster.yaml:10: levels[1].bandwidth:", "unit"),
    "an ambiguous unit": (
        *("100 Gbit/s", "100 Gb/s", "cluster.yaml:6: levels[0].bandwidth:"),
        "bits or bytes",
    ),
    "no direction": (
        *("25 GB/s per direction", "25 GB/s", "cluster.yaml:10: levels[1].bandwidth:"),
        "without a direction",
    ),
    "a negative bandwidth": ("25 GB/s", "-25 GB/s", "cluster.yaml:10:", "write one above 0"),
    "a count below 1": ("count: 4", "count: 0", "cluster.yaml:8: levels[1].count:", 'found "0"'),
    "an unknown kind": ("kind: switch", "kind: hub", "cluster.yaml:5: levels[0].kind:", "switch"),
    "broken YAML": ("  - name: host", "- ] name: host", "cluster.yaml:7:", "not YAML"),
}


@pytest.mark.parametrize("mistake", CLUSTER_MISTAKES)
def test_a_mistake_in_the_cluster_file_is_named_by_file_line_and_key(program, mistake):
    right, wrong, *texts = CLUSTER_MISTAKES[mistake]
    program.write("cluster.yaml", change(CLUSTER, right, wrong))
    program.write("model.json", MODEL)
    for command in ("best", "explain", "sweep"):
        assert_refused(program.run(command, *FILES), *texts)
    assert_refused(program.run("matrix", "--cluster", "cluster.yaml"), *texts)


@pytest.mark.parametrize("name", [b"caf\xe9", rb'"\x1b[31m"', rb'"a\0b"', rb'"a\nb"', b'"\xff"'])
def test_a_name_that_would_break_the_output_is_refused(program, name):
    path = program.folder / "cluster.yaml"
    path.write_bytes(CLUSTER.replace("host", "NAME").encode().replace(b"NAME", name))
    result = program.run("best", "--cluster", "cluster.yaml", "--hidden", 64, "--json")
    assert_refused(result, "cluster.yaml:7: levels[1].name:", "without control characters")


def test_a_files_name_is_made_plain(program):
    topo = "GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n"
    program.write("two\nlines\x1b.txt", topo)
    text = program.output("import", "two\nlines\x1b.txt")
    assert 'name: "two lines .txt"' in text
    assert "\x1b" not in text
    program.write("mine.yaml", text)
    program.output("matrix", "--cluster", "mine.yaml")


def test_a_matrix_that_is_not_square_is_refused(program):
    program.write("cluster.yaml", MATRIX)
    program.write("model.json", MODEL)
    result = program.run("best", *FILES)
    assert_refused(result, "cluster.yaml:7: point_to_point.rows[1]:", "found 3 columns, expected 2")


MODEL_MISTAKES = {
    "another model": ('"gpt2"', '"mamba"', "model.json:2: model_type:", 'found "mamba"'),
    "a missing width": ('  "n_embd": 1024,\n', "", "model.json:1: n_embd:", "is missing"),
    "a width that is text": ("1024", '"wide"', "model.json:3: n_embd:", 'found "wide"'),
    "heads that do not divide": ("16", "15", "model.json:4: n_head:", "a divisor of n_embd"),
    "broken JSON": ("1024,", "1024", "model.json:4:", "not JSON"),
}


@pytest.mark.parametrize("mistake", MODEL_MISTAKES)
def test_a_mistake_in_the_model_file_is_named_by_file_line_and_key(program, mistake):
    right, wrong, *texts = MODEL_MISTAKES[mistake]
    program.write("cluster.yaml", CLUSTER)
    program.write("model.json", change(MODEL, right, wrong))
    assert_refused(program.run("best", *FILES), *texts)


USAGE_MISTAKES = {
    "more workers than devices": (
        ("best", *FILES, "--ranks", "16"),
        ("cluster.yaml:2: levels:", "found 8 devices", "expected 16"),
    ),
    "a mesh that does not divide": (
        ("explain", *FILES, "--mesh", "3,2"),
        ("--mesh 3,2", "3 x 2 = 6", "the 8 devices of cluster.yaml"),
    ),
    "a mesh of words": (("explain", *FILES, "--mesh", "wide"), ("--mesh wide", "such as 4,2")),
    "no model": (("best", "--cluster", "cluster.yaml"), ("--model FILE, or --hidden",)),
    "two models": (("best", *FILES, "--hidden", "64"), ("cannot be combined with",)),
    "no cluster": (("best", "--model", "model.json"), ("--cluster is required",)),
    "a file that is not there": (
        ("best", "--cluster", "nowhere.yaml", "--model", "model.json"),
        ("nowhere.yaml: cannot be read: No such file",),
    ),
    "a model as the cluster": (
        ("best", "--cluster", "model.json", "--model", "cluster.yaml"),
        ("model.json: it is a model's config.json, which belongs to --model",),
    ),
    "a cluster as the model": (
        ("explain", "--cluster", "cluster.yaml", "--model", "cluster.yaml"),
        ("cluster.yaml: it is a cluster file, which belongs to --cluster",),
    ),
    "an unknown mode": (("best", *FILES, "--mode", "papr"), ("--mode", "papr", "linkload")),
    "literal without paper": (("best", *FILES, "--literal"), ("--literal requires --mode paper",)),
    "uncorrected without paper": (
        ("best", *FILES, "--uncorrected"),
        ("--uncorrected requires --mode paper",),
    ),
    "an unknown collective": (("best", *FILES, "--collectives", "tree"), ("tree",)),
    "JSON and CSV at once": (("best", *FILES, "--json", "--csv"), ("--csv",)),
    "an unknown level": (
        ("sweep", *FILES, "--count", "hots=2,4"),
        ('no level "hots"', "did you mean host?"),
    ),
    "a count without a number": (("sweep", *FILES, "--count", "host=2,x"), ('"x"', "whole number")),
    "a factor below 0": (("sweep", *FILES, "--bandwidth", "host=-1"), ('"-1"', "above 0")),
    "an unknown link class": (
        ("import", "topo.txt", "--link", "FOO=1 GB/s per direction"),
        ("CLASS=BANDWIDTH", "NV, PIX, PXB, PHB, NODE, SYS or HOST"),
    ),
    "a link without direction": (
        ("import", "topo.txt", "--link", "SYS=1 GB/s"),
        ("--link SYS", "without a direction"),
    ),
    "a count beyond the limit": (
        ("sweep", *FILES, "--count", "host=99999999"),
        ('"99999999"', "whole number from 1 to 1048576"),
    ),
    "a count that the kind cannot have": (
        (
            "sweep",
            "--cluster",
            "nvlink-pairs-8.yaml",
            "--model",
            "model.json",
            "--count",
            "gpu=2,4",
        ),
        ("--count gpu=4:", "pairs have exactly 2 children"),
    ),
    "a sweep of counts with a number of ranks": (
        ("sweep", *FILES, "--ranks", 8),
        ("--ranks fixes the number of devices",),
    ),
    "fused reduce-scatters in equation 2": (
        ("best", *FILES, "--mode", "paper", "--fused"),
        ("--mode paper: --fused is not in equation 2",),
    ),
    "fused reduce-scatters with its volume": (
        ("best", *FILES, "--volume", "equation2", "--fused"),
        ("--fused is not in equation 2",),
    ),
    "a collective that is not equation 4's": (
        ("best", *FILES, "--mode", "paper", "--collectives", "hierarchical"),
        ("--mode paper: --collectives has no effect",),
    ),
    "a volume that is not equation 2's": (
        ("best", *FILES, "--mode", "paper", "--volume", "exact"),
        ("--mode paper: --volume exact",),
    ),
    "memory that is not a number": (
        ("best", *FILES, "--device-memory", "nan"),
        ("found nan, expected a finite number above 0",),
    ),
    "infinite memory": (
        ("best", *FILES, "--device-memory", "inf"),
        ("found inf, expected a finite number above 0",),
    ),
    "heads that do not divide": (
        ("best", "--cluster", "cluster.yaml", "--hidden", 768, "--layers", 1, "--heads", 7),
        ("768 is not a multiple of the 7 heads\n",),
    ),
    "several files of which one is another program's": (
        ("import", "topo.txt", "topo.xml"),
        ("topo.xml: found the format nccl, expected nvidia-smi, like topo.txt",),
    ),
    "a host twice": (
        ("import", "topo.txt", "--name", "topo=also.txt"),
        ('also.txt: the host "topo" occurs twice', "--name HOST=FILE"),
    ),
    "a file twice": (("import", "topo.txt", "topo.txt"), ("found twice, expected once",)),
    "two names for a file": (
        ("import", "topo.txt", "--name", "a=topo.txt", "--name", "b=topo.txt"),
        ("found a second name", '"a"'),
    ),
    "a name without a file": (("import", "topo.txt", "--name", "a="), ("HOST=FILE",)),
    "no file": (("import",), ("found no file, expected FILE",)),
    "the hosts' link of one host": (
        ("import", "topo.txt", "--link", "HOST=1 GB/s per direction"),
        ("--link HOST is for several hosts",),
    ),
    "hosts with different numbers of GPUs": (
        ("import", "topo.txt", "three.txt"),
        ("three.txt: found 3 GPUs, expected 2 GPUs, like topo.txt",),
    ),
    "a cluster that was truncated": (
        ("import", "topo.xml"),
        ("topo.xml:1: not XML", "was the file truncated?"),
    ),
    "a page that is not a description": (
        ("import", "failed.txt"),
        ("failed.txt: found ", "nvidia-smi topo -m", "ASTRA-sim", "npus_count"),
    ),
}


@pytest.mark.parametrize("mistake", USAGE_MISTAKES)
def test_the_error_for_wrong_use_says_what_was_found_and_expected(program, mistake):
    arguments, texts = USAGE_MISTAKES[mistake]
    program.write("cluster.yaml", CLUSTER)
    program.write("model.json", MODEL)
    program.write("topo.txt", "GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n")
    program.write("also.txt", "GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n")
    program.write("three.txt", "GPU0 GPU1 GPU2\nGPU0 X SYS SYS\nGPU1 SYS X SYS\nGPU2 SYS SYS X\n")
    program.write("topo.xml", '<system version="1"><cpu numaid="0">')
    program.write("failed.txt", "NVIDIA-SMI has failed because it couldn't communicate.\n")
    assert_refused(program.run(*arguments), *texts)


def test_endless_standard_input_is_refused(program):
    with open("/dev/zero") as endless:
        result = program.run("import", "-", stdin=endless)
    assert_refused(result, "standard input: found more than 8 MiB")


def test_a_cluster_file_may_come_from_standard_input(program):
    program.write("model.json", MODEL)
    text = program.output("best", "--cluster", "-", "--model", "model.json", input=CLUSTER)
    assert text.startswith("8 devices: small")
    wrong = change(CLUSTER, "count: 4", "count: 0")
    result = program.run("matrix", "--cluster", "-", input=wrong)
    assert_refused(result, "standard input:8: levels[1].count:")


def test_a_sweep_says_why_a_point_has_no_answer(program):
    flags = ("--cluster", "flat-8.yaml", "--model", "gpt2-medium.json", "--count", "host=3,8")
    text = program.output("sweep", *flags)
    assert "3 devices: no mesh can run this model on these devices" in text
    assert "d1 = 3 does not divide the number of heads 16" in text
    assert "none possible" in text
    assert "8 devices:" not in text
    row = next(line for line in text.splitlines() if "none possible" in line)
    assert row.split()[-1] == "-"


def test_a_sweep_of_rings_alone_has_no_columns_for_aggregation(program):
    flags = ("--cluster", "flat-8.yaml", "--model", "gpt2-medium.json", "--count", "host=8")
    assert "with innetwork" in program.output("sweep", *flags)
    assert "with innetwork" not in program.output("sweep", *flags, "--collectives", "ring")


def test_no_mesh_at_all_is_a_failure_with_reasons(program):
    flags = ("--hidden", 49, "--layers", 2, "--heads", 7)
    program.write("cluster.yaml", CLUSTER)
    result = program.run("best", "--cluster", "cluster.yaml", *flags)
    assert_refused(result, "mesh (8,1): d1 = 8 does not divide the number of heads 7", code=1)


@pytest.mark.parametrize(
    "arguments", [("best", *FILES), ("best", *FILES, "--json"), ("import", "topo.txt"), ("--help",)]
)
def test_what_cannot_be_printed_is_a_failure(program, arguments):
    program.write("cluster.yaml", CLUSTER)
    program.write("model.json", MODEL)
    program.write("topo.txt", "GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n")
    with open("/dev/full", "w") as full:
        result = program.run(*arguments, stdout=full)
    assert result.returncode == 1
    assert "cannot write to" in result.stderr
    assert "No space left on device" in result.stderr


def test_a_sweep_of_counts_needs_levels_alone(program):
    result = program.run("sweep", "--cluster", "ic1-measured.yaml", "--model", "gpt3-175b.json")
    assert_refused(result, "describes individual devices", "use --bandwidth")
