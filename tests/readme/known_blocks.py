"""Which test runs each fenced block of the pages, by its first line; unknown blocks fail.

Here: test_blocks.py types it. By: another test takes it from the page. Never: it is not run, for
the reason given; that its programs and options exist is checked all the same.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Here:
    """Run in a sandbox as it stands, except for what `smaller` replaces."""

    smaller: tuple[tuple[str, str], ...] = ()
    addresses: tuple[str, ...] = ()  # on a network namespace of its own, which has these
    serving: tuple[str, ...] = ()  # commands with these beginnings serve while the others are typed
    then: str = ""  # typed after it, and must succeed
    shows: str = ""  # the first line of the block with its output
    ends_with: int = 0  # the exit code of the last command
    exactly: bool = False  # it prints the same numbers in every run


@dataclasses.dataclass(frozen=True)
class By:
    """Each of the tests takes its part of the block."""

    test: str
    others: tuple[str, ...] = ()

    @property
    def tests(self):
        return (self.test, *self.others)


@dataclasses.dataclass(frozen=True)
class Never:
    why: str


DRAWING = Never("a drawing")
BARE_MACHINE = By("tools/fresh")
ITS_HOSTS = By("tests/netns/test_commands_of_pages.py")

PACKAGE = By("tests/packages/in_machine")
PIP_PACKAGE = By("tests/packages/test_packages.py")

README = {
    "rank 0   rank 1   rank 2   rank 3": DRAWING,
    "apt-get install git make": BARE_MACHINE,
    "make demo": BARE_MACHINE,
    "source .venv/bin/activate": BARE_MACHINE,
    "make test": BARE_MACHINE,
    "import torch.distributed as dist": By("python/tests/test_page.py"),
    "atp run -n 4 -- python examples/02_torch_ddp.py": Here(),
}

CONTRIBUTING = {
    "make build": By(".ci/checks"),
}

GETTING_STARTED = {
    "atp          Gloo": By("tests/examples/test_demo_checks.py"),
    "atp server --listen 10.0.0.1:5500 &": By("tests/netns/test_two_hosts.py"),
    "export ATP_ROUTE=10.0.0.1:5501,10.0.0.1:5500": By("tests/netns/test_two_hosts.py"),
    "atp run -n 4 --switch -- atp bench allreduce": Here(shows="# atp bench allreduce: 4 ranks,"),
    "atp plan best --cluster examples/clusters/flat-8.yaml": Here(
        shows="8 devices: flat", exactly=True
    ),
}

CLUSTER = {
    "name: a rack of workers and a rack of servers": By("tests/readme/test_blocks.py"),
    "atp run --cluster cluster.yaml --host a1": ITS_HOSTS,
    "$ atp sim --cluster examples/clusters/two-racks-and-servers.yaml": Here(exactly=True),
}

OPERATIONS = {
    "# If the table and chain do not exist yet:": Here(
        addresses=("10.0.0.1",), then="nft list table inet filter | grep -c 'dport { 5500, 5501 }'"
    ),
    "systemctl enable --now atp": PACKAGE,
    "ssh a0 'nohup atp run --cluster /etc/atp/cluster.yaml": ITS_HOSTS,
    "atp run --cluster /etc/atp/cluster.yaml --host a1": ITS_HOSTS,
    "bad      answer          10.0.0.9:5500": By("tests/netns/test_doctor.py"),
    '{"time": "2026-03-01T09:30:12.417+01:00",': By("tests/e2e/test_log.py"),
    "# On the host of each switch, one after another;": By("tests/e2e/test_rolling_update.py"),
    "atp key vision vision.key": Here(then="test $(grep -c . keys) = 2"),
    "vision 9f86… jobs=8": By("tests/e2e/test_keys.py"),
}

DEPLOY = {
    "sbatch --nodelist=a0 deploy/slurm/switch.sbatch": By("tests/deploy/test_slurm.py"),
    "sbatch --nodes=4 deploy/slurm/job.sbatch": By("tests/deploy/test_slurm.py"),
    "kubectl label node a0 b0 s0 atp/switch=yes": By("tests/deploy/test_kubernetes.py"),
}

PACKAGES = {
    "apt-get install ./atp_0.1.0_amd64.deb": PACKAGE,
    "systemctl enable --now atp-server@main atp-switch@main": PACKAGE,
    "pip install atp_program-0.1.0-py3-none-manylinux_2_35_x86_64.whl": PIP_PACKAGE,
    "pip install atp-0.1.0.tar.gz": PIP_PACKAGE,
    "podman build -f deploy/Containerfile": By("tests/packages/container"),
}

STATUS = {
    "$ atp status 127.0.0.1:5501": By("tests/e2e/test_status.py"),
    "job 7 waits for rank 2 (10.0.1.2)": By("tests/e2e/test_status.py"),
    "job 7: straggler rank 2:": By("tests/e2e/test_status.py"),
    "aggregators are scarce: 3.0 %": By("tests/e2e/test_status.py"),
    "job 7 failed 4.1 s ago: rank 1": By("tests/e2e/test_cluster_run.py"),
    "draining, 2 jobs left": By("tests/e2e/test_drain.py"),
    "ssh rack1 atp status 10.0.0.1:5501": ITS_HOSTS,
}

VIEW = {
    "$ atp view /etc/atp/cluster.yaml": By("tests/e2e/test_view.py"),
    "atp run --cluster /etc/atp/cluster.yaml --status-from": ITS_HOSTS,
    "ssh -L 5580:127.0.0.1:5580 ops1": ITS_HOSTS,
}

METRICS = {
    "atp switch --listen 10.0.0.1:5501 --upstream 10.0.0.9/32": Here(
        addresses=("10.0.0.1", "10.0.0.9"), serving=("atp switch",)
    ),
    "ATP_METRICS=127.0.0.1:9600 atp run": Here(addresses=("10.0.0.1",), serving=("ATP_METRICS",)),
}

FAILING_JOB = By("python/tests/test_flight_recorder.py")

FLIGHT_RECORDER = {
    "ATP_FLIGHT_RECORDER=/shared/fr torchrun": FAILING_JOB,
    "job 971967073/3875236248:": FAILING_JOB,
    "python -m torch.distributed.flight_recorder.fr_trace": FAILING_JOB,
}

PERFORMANCE = {
    "backend  ms per step": By("tests/experiments/test_training.py"),
    "ranks      bytes  memory ms": By("tests/experiments/test_memory_beside_gloo.py"),
    "ranks type ": By("tests/experiments/test_memory_beside_gloo.py"),
    "ranks per host            ms": By("tests/experiments/test_several_hosts.py"),
    "atp server --listen 10.0.0.9:5600 --lanes 4": Here(
        addresses=("10.0.0.1", "10.0.0.9"),
        serving=("atp server", "atp switch"),
        # They take a moment to come up.
        then="until atp status 10.0.0.1:5703 2>/dev/null; do sleep 0.1; done\n"
        "atp run -n 2 -- atp bench allreduce -e 64K",
    ),
    "/usr/bin/time atp run -n 4 --switch --lanes N": Here(
        # The shell's own, as a bare machine has no other.
        smaller=(("/usr/bin/time", "time"), ("--lanes N", "--lanes 2"), ("-n 20 -w 3", "-n 2 -w 1"))
    ),
    ".venv/bin/python -m experiments.bench --without-mpi": By("tests/experiments/test_bench.py"),
}

PLANNER = {
    "atp plan best --cluster examples/clusters/flat-8.yaml": By("tests/plan/test_documents.py"),
    "from atp.planner import plan": By("tests/plan/test_documents.py"),
    "cat > topo.txt": By("tests/plan/test_documents.py"),
    "four equal hosts: 4 ranks on 4 hosts;": By("tests/plan/test_documents.py"),
    "name: two racks of four hosts": By("tests/plan/test_documents.py"),
}

SIMULATOR = {
    "atp sim --seed 17": Here(smaller=(("--count 1000000", "--count 20"), ("1024", "64"))),
    "tools/mutate --layers seeds --seeds 300": By("tests/tools/mutants_test.py"),
}

EXPLORATION = {
    "build/release/bin/atp_explore --list": Here(smaller=(("20000000", "20000"),), ends_with=1),
}

ACCURACY = {
    "ranks way                   2^0": By("tests/experiments/test_accuracy.py"),
    "way                  ms  spread": By("tests/experiments/test_formats.py"),
    ".venv/bin/python -m experiments.accuracy": By(
        "tests/experiments/test_accuracy.py",
        (
            "tests/experiments/test_one_digest.py",
            "tests/experiments/test_formats.py",
            "tests/experiments/test_costs.py",
        ),
    ),
}

TENSOR_PARALLEL = {
    "import torch": By("python/tests/tensor_parallel/test_document.py"),
    "atp run -n 4 -- python train.py": By("python/tests/tensor_parallel/test_document.py"),
    "from atp.tensor_parallel import": By("python/tests/tensor_parallel/test_document.py"),
    "import torch.distributed.checkpoint as dcp": By(
        "python/tests/tensor_parallel/test_document.py"
    ),
    "import torch.distributed as dist": By("python/tests/tensor_parallel/test_document.py"),
    "atp run -n 8 -- atp plan calibrate": By("tests/plan/test_measuring.py"),
}

TRANSFORMERS = {
    "levels:": By("tests/real_programs/test_transformers.py"),
    "import torch": By("tests/real_programs/test_transformers.py"),
    "atp run -n 4 -- python train.py": By("tests/real_programs/test_transformers.py"),
}

TORCH = {
    "import torch.distributed as dist": By("python/tests/test_page.py"),
    "model = DistributedDataParallel(model)": By("python/tests/test_page.py"),
    "model.register_comm_hook(None, atp.torch.two_level_hook(intra_group, inter_group))": By(
        "python/tests/test_page.py"
    ),
    "atp.torch.digest()": By("python/tests/test_page.py"),
    "mesh = init_device_mesh(": By("python/tests/test_page.py"),
}

TORCH_INTERNALS = {
    "bound: (N-1)/N * S/B, an all-reduce": By("tests/experiments/test_ring_beside_gloo.py"),
    "backend  ms per step": By("tests/experiments/test_fsdp.py"),
}

BLOCKS = {
    "README.md": README,
    "CONTRIBUTING.md": CONTRIBUTING,
    "docs/results/accuracy.md": ACCURACY,
    "docs/inside/architecture.md": {"rank 0      rank 1      rank 2      rank 3": DRAWING},
    "docs/use/cluster.md": CLUSTER,
    "docs/operate/deploy.md": DEPLOY,
    "docs/inside/exploration.md": EXPLORATION,
    "docs/operate/flight-recorder.md": FLIGHT_RECORDER,
    "docs/use/getting-started.md": GETTING_STARTED,
    "docs/operate/metrics.md": METRICS,
    "docs/operate/operations.md": OPERATIONS,
    "docs/use/packages.md": PACKAGES,
    "docs/results/performance.md": PERFORMANCE,
    "docs/plan/planner.md": PLANNER,
    "docs/inside/protocol/README.md": {
        "┌──────────┐": DRAWING,
        "time   ranks 0": By("tests/virtual_network/one_fragment_test.cc"),
    },
    "docs/inside/simulator.md": SIMULATOR,
    "docs/operate/status.md": STATUS,
    "docs/plan/tensor-parallel-transformers.md": TRANSFORMERS,
    "docs/plan/tensor-parallel.md": TENSOR_PARALLEL,
    "docs/inside/torch-internals.md": TORCH_INTERNALS,
    "docs/use/torch.md": TORCH,
    "docs/operate/view.md": VIEW,
}


def begins(block, words):
    """Whether the block's first line starts with these words."""
    return f"{block.first_line} ".startswith(f"{words} ")


def treatment(block):
    """The entry of BLOCKS whose words begin the block, or None."""
    known = BLOCKS.get(block.page, {})
    found = [how for words, how in known.items() if begins(block, words)]
    return found[0] if found else None


def is_output(block):
    """Whether it is the output of a block that is run."""
    shown = [one.shows for one in BLOCKS.get(block.page, {}).values() if isinstance(one, Here)]
    return any(words and begins(block, words) for words in shown)
