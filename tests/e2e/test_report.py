"""`atp report`: files of C++ ranks that were killed, frozen or asked for them, and bad files."""

import json
import shutil
import signal
import subprocess

import pytest

RANKS = 3
SECONDS = 30


@pytest.fixture
def folder(cluster):
    return cluster.folder / "records"


@pytest.fixture
def report(cluster):
    def run(*arguments, code):
        done = subprocess.run(
            [str(cluster.atp), "report", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def start(cluster, folder, **env):
    for log in cluster.folder.glob("rank*.log"):
        log.unlink()  # of an earlier start
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench(), ATP_FLIGHT_RECORDER=folder, **env)
    cluster.wait_until(lambda: "# atp bench" in ranks[0].output(), "the start", SECONDS)
    return ranks


@pytest.fixture
def running(cluster, folder):
    cluster.start_server()
    cluster.start_switch()
    return start(cluster, folder)


@pytest.fixture
def written(cluster, folder, running):
    """The files of a healthy job."""
    for rank in running:
        rank.signal(signal.SIGUSR1)
    cluster.wait_until(lambda: len(list(folder.glob("atp_rank_?"))) == RANKS, "files", SECONDS)
    return folder


def findings(report, folder, code=1):
    return json.loads(report(folder, "--json", code=code))["findings"]


def test_a_healthy_job_is_found_healthy_and_runs_on(cluster, written, running, report):
    said = report(written, code=0)
    assert f"job {cluster.job}/" in said and "files of ranks 0 to 2; one host" in said
    assert "No failure, no mismatch, and no rank that others wait for." in said
    assert all(rank.running() for rank in running)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_killed_or_frozen_is_named(folder, running, report, how):
    running[1].signal(how)
    for rank in (running[0], running[2]):
        assert rank.wait(SECONDS) != 0
    (finding,) = findings(report, folder)
    assert finding["ranks"] == [1], finding
    assert finding["operation"].startswith("all_reduce #")
    assert "Ranks 0 and 2 waited for rank 1 in all_reduce #" in report(folder, code=1)


def test_a_switch_that_is_killed_is_in_the_timeline_and_no_rank_is_named(cluster, folder, report):
    cluster.start_server()
    switch = cluster.start_switch()
    ranks = start(cluster, folder)
    switch.kill()
    for rank in ranks:
        cluster.wait_until(
            lambda rank=rank: "no longer answers" in rank.output(), "the line", SECONDS
        )
        rank.signal(signal.SIGUSR1)
    cluster.wait_until(lambda: len(list(folder.glob("atp_rank_?"))) == RANKS, "files", SECONDS)
    said = report(folder, "--last", 60, code=0)
    assert said.count(f"switch {cluster.switch_address} no longer answers") == RANKS


def test_files_of_ranks_in_memory_name_a_killed_rank_too(cluster, folder, report):
    ranks = start(cluster, folder, ATP_HOST_MEMORY=1)
    ranks[1].kill()
    for rank in (ranks[0], ranks[2]):
        assert rank.wait(SECONDS) != 0
    (finding,) = findings(report, folder)
    assert finding["ranks"] == [1], finding


def test_a_damaged_and_an_empty_file_are_left_out_and_named(written, report):
    one, two = written / "atp_rank_1", written / "atp_rank_2"
    one.write_bytes(one.read_bytes()[:-100])
    two.write_bytes(b"")
    said = report(written, code=0)
    assert f"left out: {one}: damaged, or not a flight-recorder file of atp: it " in said, said
    assert f"left out: {two}: it is empty: was the disk full?" in said
    assert "files of rank 0, none of ranks 1 and 2" in said


def test_files_of_two_starts_of_a_job_are_refused(cluster, written, running, report):
    for rank in running:
        rank.kill()
    kept = (written / "atp_rank_2").read_bytes()
    shutil.rmtree(written)
    cluster.job += 1
    again = start(cluster, written)
    again[0].signal(signal.SIGUSR1)
    cluster.wait_until((written / "atp_rank_0").exists, "a file", SECONDS)
    (written / "atp_rank_2").write_bytes(kept)
    said = report(written, code=2)
    assert "the files belong to different jobs, or to different starts of one: rank 0" in said
    assert report(written / "atp_rank_2", code=0)


WRONG = {
    "nothing": ([], "no files: name the folder that ATP_FLIGHT_RECORDER named for the job"),
    "a folder that is not there": (["/nowhere"], "/nowhere: there is no such file or folder"),
    "a folder without files": (["EMPTY"], "no flight-recorder files: their names end in a rank"),
    "a text": (["TEXT"], "damaged, or not a flight-recorder file of atp: it is not a pickle"),
    "a negative time": (["EMPTY", "--last", "-1"], "--last"),
    "an unknown option": (["EMPTY", "--verbose"], "--verbose"),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_error_for_wrong_usage_says_what_is_wrong(tmp_path, report, case):
    arguments, wanted = WRONG[case]
    (tmp_path / "empty").mkdir()
    (tmp_path / "text0").write_text("hello")
    paths = {"EMPTY": tmp_path / "empty", "TEXT": tmp_path / "text0"}
    assert wanted in report(*[paths.get(word, word) for word in arguments], code=2)
