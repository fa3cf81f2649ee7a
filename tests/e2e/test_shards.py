"""Several servers for one job: each completes a part of every large tensor."""

import json
import subprocess


def completed(path):
    return json.loads(path.read_text().splitlines()[-1])["counters"]["fragments_completed"]


def test_a_job_with_three_servers_spreads_its_tensors_over_them(cluster):
    bench = cluster.bench("-b", "1K", "-e", "4M", "-f", "16", "-n", "3", "-w", "1")
    stats = cluster.folder / "stats"
    command = [cluster.atp, "run", "-n", "4", "--servers", "3", "--values", "350"]
    done = subprocess.run(
        [*command, "--stats-dir", stats, "--", *bench], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout
    shares = [completed(stats / f"server-{i}.jsonl") for i in range(3)]
    # Of a 4 MiB tensor's 2,997 fragments each has a third; the small ones go here and there.
    assert min(shares) > 0.3 * sum(shares), shares
