"""Asks nodes' status, their metrics and the page of `atp view` who is to blame, over and over.

    watcher.py ATP VIEW_URL STATUS_ADDRESS=METRICS_URL...

Prints a JSON line {"time": …, "place": "status" | "metrics" | "page", "named": […]} whenever the
names that a place gives change: "rank 1", or a node's address. A node that does not answer is named
by its address. Ends when it is killed.
"""

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request

PAUSE_S = 0.05
PATIENCE_S = 1.5  # as `atp view`
OPERATIONS = 20  # with fewer, lateness means nothing
LATE_US = 1000  # as `atp status` judges: in half of the operations


def in_status(atp, address):
    done = subprocess.run(
        [atp, "status", address, "--json", "--timeout", str(PATIENCE_S)],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        return {address}
    status = json.loads(done.stdout)
    named = {f"rank {failure['rank']}" for failure in status.get("failures", [])}
    for job in status["jobs"]:
        held_up = {rank["rank"] for rank in (job["stuck"] or {"ranks": []})["ranks"]}
        held_up |= set(job.get("lost", [])) | set(job["left"])
        late = max(job["lateness"], key=lambda one: one["first_p50_us"], default=None)
        if late and late["first_p50_us"] >= LATE_US and late["operations"] >= OPERATIONS:
            held_up.add(late["rank"])
        named |= {f"rank {rank}" for rank in held_up}
    return named


def in_metrics(address, url):
    try:
        lines = fetch(url).splitlines()
    except OSError:
        return {address}  # what a scraper reports as down
    named, late, operations = set(), set(), {}
    for line in lines:
        if not (of_rank := re.search(r'rank="(\d+)"', line)):
            continue
        rank, value = f"rank {of_rank[1]}", float(line.split()[-1])
        if line.startswith("atp_job_stuck_seconds{"):
            named.add(rank)
        elif line.startswith("atp_job_first_packet_lateness_seconds_count{"):
            operations[rank] = value
        elif line.startswith("atp_job_first_packet_lateness_seconds{"):
            if 'quantile="0.5"' in line and value * 1e6 >= LATE_US:
                late.add(rank)
    return named | {rank for rank in late if operations.get(rank, 0) >= OPERATIONS}


def in_page(url):
    """Whom the page's problems and events name: ranks by number, nodes by address."""
    page = json.loads(fetch(url))
    named = set()
    for text in [one["text"] for one in page["problems"] + page["events"]]:
        if "joined" in text or "running" in text or "runs" in text:
            continue
        for ranks in re.findall(r"ranks? (\d+(?:(?:, | and | to )\d+)*)", text):
            named |= {f"rank {number}" for number in re.findall(r"\d+", ranks)}
        if "is dead" in text or "does not answer" in text:
            named |= set(re.findall(r"[\d.]+:\d+", text))
    return named


def fetch(url):
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as reply:
        return reply.read().decode()


def watch(place, ask, *words):
    before = None
    while True:
        named = ask(*words)
        if named != before:
            before = named
            line = {"time": time.time(), "place": place, "named": sorted(named)}
            os.write(1, f"{json.dumps(line)}\n".encode())  # whole, whatever other threads write
        time.sleep(PAUSE_S)


def main(atp, view_url, *nodes):
    threads = [("page", in_page, view_url)]
    for node in nodes:
        address, url = node.split("=")
        threads += [("status", in_status, atp, address), ("metrics", in_metrics, address, url)]
    for words in threads:
        threading.Thread(target=watch, args=words).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
