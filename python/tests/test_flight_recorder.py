"""A job's flight-recorder files, read by `atp report` and by torch's own analyzer."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import atp.torch
from tests.pages import command, shown

from .network import PROGRAM
from .waiting import wait_until
from .ways import WAYS, options_of

RANKS = 3
VICTIM = 1
STEPS = 5
LIMIT_S = 4
TORCHRUN = Path(sys.executable).parent / "torchrun"
PAGE = "docs/operate/flight-recorder.md"
OF_THE_PAGE = """
import glob, os, signal, time, torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
for _ in range(101):
    if dist.get_rank() == 0:
        time.sleep(0.02)
    dist.all_reduce(torch.ones(25000))
if dist.get_rank() == 2:
    # Otherwise torchrun may end the others before they notice that rank 2 is gone.
    os.kill(os.getppid(), signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(25000))
finally:
    if dist.get_rank() == 0:
        written = os.environ["ATP_FLIGHT_RECORDER"] + "/atp_rank_[0-3]"
        while len(glob.glob(written)) < 3:
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGCONT)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the ranks write: they are forked, and inherit the environment."""
    folder = tmp_path / "made" / "by-the-ranks"
    monkeypatch.setenv("ATP_FLIGHT_RECORDER", str(folder))
    return folder


def of_the_page(beginning, folder):
    """A command of the page, for this folder."""
    words = command(PAGE, beginning)
    assert words[-1] == "/shared/fr"
    return [*words[:-1], folder]


def reported(folder, code):
    done = subprocess.run(
        [PROGRAM, "report", folder, "--json"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def analyzed(folder, *options):
    """What torch's own analyzer says."""
    words = of_the_page("python -m torch.distributed.flight_recorder.fr_trace", folder)
    done = subprocess.run([*words, *options], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def files_of(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def train(steps=STEPS, values=1000):
    for _ in range(steps):
        dist.all_reduce(torch.ones(values))


def run(ranks, way, body, **options):
    return ranks.outcomes(
        RANKS,
        body,
        memory=way == "memory",
        pg_options=options_of(way),
        timeout_s=options.pop("timeout_s", LIMIT_S),
        **options,
    )


SURVIVORS = [rank for rank in range(RANKS) if rank != VICTIM]


def fail_when(victim):
    """A body: victim() makes the others' next sum fail, and they return the names of the files."""

    def body(rank):
        train()
        if rank == VICTIM:
            victim()
        try:
            train(1)
        except dist.DistBackendError:
            return files_of(Path(os.environ["ATP_FLIGHT_RECORDER"]))
        return None

    return body


def form(text):
    """Without numbers, and without the host's name and how long something took."""
    text = re.sub(r"by the clock of \S+", "by the clock of HOST", text)
    return re.sub(r"\d+(\.\d+)?( (µs|ms|s)\b)?", "N", text)


def test_the_page_shows_the_report_of_a_job_whose_rank_2_was_killed(tmp_path):
    (tmp_path / "train.py").write_text(OF_THE_PAGE)
    setting, program, *words = command(PAGE, "ATP_FLIGHT_RECORDER=/shared/fr torchrun")
    assert (setting, program) == ("ATP_FLIGHT_RECORDER=/shared/fr", "torchrun")
    folder = tmp_path / "shared-fr"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = subprocess.run(
        [TORCHRUN, f"--master-port={port}", *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "ATP_FLIGHT_RECORDER": str(folder),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0, "torchrun reports that a rank has failed"
    assert of_the_page("atp report", folder)[:2] == ["atp", "report"]
    done = subprocess.run([PROGRAM, "report", folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    expected = shown(PAGE, "job ")
    assert form(done.stdout).startswith(form(expected)), done.stdout
    for sentence in ("none of rank 2;", "waited for rank 2 in all_reduce #102 of [25000] float32"):
        assert sentence in expected and sentence in done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_is_killed_is_named(ranks, folder, way):
    body = fail_when(lambda: os.kill(os.getpid(), signal.SIGKILL))
    outcomes = run(ranks, way, body, timeout_s=20)
    for rank in SURVIVORS:
        assert f"atp_rank_{rank}" in outcomes[rank].value, "written before the error is raised"
    report = reported(folder, 1)
    assert report["without_file"] == [VICTIM]
    (finding,) = report["findings"]
    assert finding["ranks"] == [VICTIM], finding
    assert finding["operation"] == f"all_reduce #{STEPS + 1} of [1000] float32"
    assert finding["waiting"] == SURVIVORS


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_is_frozen_is_named(ranks, folder, way):
    body = fail_when(lambda: os.kill(os.getpid(), signal.SIGSTOP))
    run(ranks, way, body, waited_for=SURVIVORS)
    report = reported(folder, 1)
    assert [finding["ranks"] for finding in report["findings"]] == [[VICTIM]], report["findings"]


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_is_alive_and_does_not_come_is_named(ranks, folder, way):
    # In the network its own sum even succeeds: the others' values are there.
    run(ranks, way, fail_when(lambda: time.sleep(3 * LIMIT_S)))
    (finding,) = reported(folder, 1)["findings"]
    assert finding["ranks"] == [VICTIM], finding
    waited = (finding["until_ns"] - finding["since_ns"]) / 1e9
    assert LIMIT_S - 1.5 < waited < LIMIT_S + 3, waited


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_with_another_size_is_named(ranks, folder, way):
    def body(rank):
        train()
        try:
            train(1, values=999 if rank == VICTIM else 1000)
        except dist.DistBackendError:
            pass

    run(ranks, way, body)
    (finding,) = reported(folder, 1)["findings"]
    assert (finding["kind"], finding["ranks"]) == ("mismatch", [VICTIM])
    assert finding["parts"][VICTIM]["operation"] == f"all_reduce #{STEPS + 1} of [999] float32"
    code, text = analyzed(folder)
    assert code == 0, text
    assert f"Collective sequence number: {STEPS + 1} has errors" in text
    # It takes the first file that it happens to read for the right one.
    assert "Error type: SIZE_OR_SYNTAX_MISMATCH" in text and "[[999]]" in text


def test_torchs_analyzer_names_the_rank_that_misses_a_sum(ranks, folder):
    def body(rank):
        train()
        try:
            if rank != VICTIM:
                train(1)
            else:
                time.sleep(2 * LIMIT_S)
                atp.torch.write_flight_records()
        except dist.DistBackendError:
            pass

    run(ranks, "innetwork", body)
    code, text = analyzed(folder)
    assert code == 0, text
    assert f"Not all ranks joining collective, sequence number: {STEPS + 1}" in text
    assert f"missing ranks: {{{VICTIM}}}" in text
    assert "group info: 0:default_pg" in text
    assert "input sizes: [[1000]]" in text
    (finding,) = reported(folder, 1)["findings"]
    assert finding["ranks"] == [VICTIM]


def test_torchs_analyzer_reads_the_files_of_every_collective(ranks, folder):
    def body(rank):
        one, many = torch.ones(4), [torch.ones(4) for _ in range(RANKS)]
        dist.all_reduce(one)
        dist.all_reduce(one.to(torch.int64), op=dist.ReduceOp.PRODUCT)
        dist.broadcast(one, 0)
        dist.reduce(one, 0)
        dist.all_gather(many, one)
        dist.all_gather_into_tensor(torch.ones(4 * RANKS), one)
        dist.reduce_scatter(one, many)
        dist.reduce_scatter_tensor(one, torch.ones(4 * RANKS))
        dist.gather(one, many if rank == 0 else None, 0)
        dist.scatter(one, many if rank == 0 else None, 0)
        dist.all_to_all_single(torch.ones(RANKS), torch.ones(RANKS))
        dist.barrier()
        dist.send(one, 1) if rank == 0 else dist.recv(one, 0) if rank == 1 else None
        dist.new_group([0, 2], group_desc="a pair")
        atp.torch.write_flight_records()

    run(ranks, "innetwork", body)
    assert reported(folder, 0)["findings"] == []
    code, text = analyzed(folder)
    assert code == 0, text
    assert "mismatch" not in text.lower() and "errors" not in text, text


def test_a_receiver_whose_sender_does_not_come_is_shown(ranks, folder):
    def body(rank):
        train()
        said = ""
        if rank == 0:
            work = dist.irecv(torch.ones(5), VICTIM)
            time.sleep(2)
            atp.torch.write_flight_records()
            command = [PROGRAM, "report", folder]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
        dist.barrier()
        if rank == VICTIM:
            dist.send(torch.ones(5), 0)
        elif rank == 0:
            work.wait()
        return said

    said = run(ranks, "innetwork", body, timeout_s=20)[0].value
    assert "Rank 0 waits in recv 0<-1 #1 of [5] float32" in said, said


def test_a_failure_in_one_group_of_many_names_that_group(ranks, folder):
    def body(rank):
        groups = [dist.new_group([0, 1], group_desc=f"pair {i}") for i in range(3)]
        train()
        if rank == 2:
            return
        dist.all_reduce(torch.ones(8), group=groups[1])
        try:
            if rank == 0:
                dist.all_reduce(torch.ones(8), group=groups[1])
            else:
                time.sleep(2 * LIMIT_S)
        except dist.DistBackendError:
            pass

    run(ranks, "innetwork", body)
    (finding,) = reported(folder, 1)["findings"]
    assert "pair 1" in finding["group"]
    assert finding["ranks"] == [1]


@pytest.mark.parametrize("way", WAYS)
def test_a_healthy_job_writes_on_sigusr1_and_goes_on(ranks, folder, way):
    def body(rank):
        train()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert wait_until((folder / f"atp_rank_{rank}").exists)
        train()
        return True

    assert all(outcome.value for outcome in run(ranks, way, body))
    report = reported(folder, 0)
    assert report["findings"] == []
    assert any(row["text"] == "wrote its file: SIGUSR1" for row in report["timeline"])


def test_a_programs_own_handlers_stay(ranks, folder, monkeypatch):
    seen = []

    def body(rank):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert wait_until(lambda: len(seen) == 2)
        return files_of(folder)

    before = [signal.signal(n, lambda *_: seen.append(1)) for n in (signal.SIGUSR1, signal.SIGTERM)]
    try:
        outcomes = run(ranks, "memory", body)
    finally:
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGTERM, before[1])
    assert [outcome.value for outcome in outcomes] == [[], [], []]


def test_sigterm_ends_a_rank_after_it_has_written(ranks, folder):
    def body(rank):
        train()
        dist.barrier()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)

    outcomes = run(ranks, "memory", body)
    assert [outcome.exit_code for outcome in outcomes] == [-signal.SIGTERM] * RANKS
    assert files_of(folder) == [f"atp_rank_{rank}" for rank in range(RANKS)]


def test_a_forked_child_ends_by_the_signals_as_ever_and_writes_nothing(ranks, folder):
    def body(rank):
        train(1)
        codes = []
        for number in (signal.SIGUSR1, signal.SIGTERM):
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            os.kill(child, number)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        train(1)
        return codes, files_of(folder)

    for outcome in run(ranks, "innetwork", body):
        assert outcome.value == ([-signal.SIGUSR1, -signal.SIGTERM], [])


def test_nothing_is_written_or_taken_unless_asked_for(ranks, tmp_path, monkeypatch):
    monkeypatch.delenv("ATP_FLIGHT_RECORDER", raising=False)
    monkeypatch.chdir(tmp_path)

    def body(rank):
        train(1)
        with pytest.raises(ValueError, match="no folder: give one, or set ATP_FLIGHT_RECORDER"):
            atp.torch.write_flight_records()
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
        return atp.torch.write_flight_records(tmp_path / "x")

    for outcome in run(ranks, "memory", body):
        assert outcome.value == [str(tmp_path / "x" / f"atp_rank_{outcome.rank}")], outcome.error
    assert {path.name for path in tmp_path.iterdir()} <= {"store1", "x"}


def test_a_folder_that_cannot_be_made_is_a_warning(ranks, tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATP_FLIGHT_RECORDER", str(tmp_path / "file" / "x"))

    def body(rank):
        train()
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.5)
        train()
        return True

    assert all(outcome.value for outcome in run(ranks, "memory", body))
    said = capfd.readouterr().err
    assert f"atp: flight recorder: cannot create the folder {tmp_path}/file/x: " in said
    assert f"atp: flight recorder: cannot write {tmp_path}/file/x/atp_rank_0: " in said


def test_a_disk_that_is_full_leaves_the_older_file_and_a_line(ranks, folder, capfd):
    def body(rank):
        train()
        atp.torch.write_flight_records()
        before = (folder / f"atp_rank_{rank}").read_bytes()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, unlimited[1]))
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.5)
        # torch's FileStore aborts a process that cannot write when it closes it.
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        return before == (folder / f"atp_rank_{rank}").read_bytes(), files_of(folder)

    everything = [f"atp_rank_{rank}" for rank in range(RANKS)]
    for outcome in run(ranks, "memory", body):
        assert outcome.value == (True, everything), outcome
    # The limit of 100 bytes also cuts the line on stderr.
    assert f"cannot write {folder}"[:60] in capfd.readouterr().err


def test_torchs_variables_are_followed(ranks, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", str(tmp_path / "traces" / "rank_"))
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "4")

    def body(rank):
        train(10)
        return atp.torch.write_flight_records()

    for outcome in run(ranks, "memory", body):
        assert outcome.value == [str(tmp_path / "traces" / f"rank_{outcome.rank}")]
    done = subprocess.run(
        [PROGRAM, "report", tmp_path / "traces", "--operations"], capture_output=True, text=True
    )
    assert "all_reduce #10" in done.stdout and "all_reduce #6" not in done.stdout


def test_a_size_that_is_not_a_number_is_an_error_that_names_the_variable(ranks, monkeypatch):
    monkeypatch.setenv("ATP_FLIGHT_RECORDER_SIZE", "lots")
    for outcome in run(ranks, "memory", lambda rank: None):
        assert 'ATP_FLIGHT_RECORDER_SIZE="lots" is not a whole number from 0 to' in outcome.error
