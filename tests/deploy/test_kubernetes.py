"""The Kubernetes manifests (docs/operate/deploy.md): the schemas and atp find no fault."""

import re
import subprocess
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from lab.ports import free_ports
from tests.e2e.conftest import PROGRAM, Process, wait_until

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
SECONDS = 30
# Of the schemas in the validator, the oldest that the manifests should still fit, and the newest.
VERSIONS = ("1.29", "1.37")


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


def pods(path):
    return [d["spec"]["template"]["spec"] for d in documents(path) if "template" in d["spec"]]


def container_of(name):
    (pod,) = pods(FOLDER / f"{name}.yaml")
    (container,) = pod["containers"]
    return container


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: p.name)
def test_the_schemas_find_nothing(path, version):
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_would_find_something():
    (daemon_set,) = documents(FOLDER / "switch.yaml")
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    container["arguments"] = container.pop("args")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(daemon_set, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda p: p.name)
def test_pods_use_the_hosts_network_and_have_few_rights(path):
    for pod in pods(path):
        assert pod["hostNetwork"] is True
        assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsUser"] == 65534, "the user of the image"
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_user_is_that_of_the_image():
    text = (FOLDER.parent / "Containerfile").read_text()
    assert "USER 65534:65534" in text and 'ENTRYPOINT ["/usr/bin/atp"]' in text


@pytest.mark.parametrize("name", ["switch", "server"])
def test_the_selectors_select_the_pods(name):
    (daemon_set,) = documents(FOLDER / f"{name}.yaml")
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    assert daemon_set["spec"]["selector"]["matchLabels"] == labels
    assert labels["app.kubernetes.io/component"] == name


@pytest.fixture
def started(tmp_path):
    """Starts a manifest's container: its arguments, on loopback and free ports."""
    processes = []

    def start(name):
        container = container_of(name)
        port, metrics = free_ports(2)
        given = {p["name"]: str(p["containerPort"]) for p in container["ports"]}
        arguments = [
            a.replace("$(HOST_IP)", "127.0.0.1").replace("10.0.0.0/24", "127.0.0.0/8")
            for a in container["args"]
        ]
        arguments = [
            a.replace(f":{given['gradients']}", f":{port}")
            .replace(f":{given['metrics']}", f":{metrics}")
            for a in arguments
        ]  # fmt: skip
        process = Process([PROGRAM, *arguments], tmp_path / f"{name}.log")
        processes.append(process)
        wait_until(lambda: "listening on" in process.output() or not process.running(), name)
        assert process.running(), process.output()
        return process, port, metrics

    yield start
    for process in processes:
        process.kill()


@pytest.mark.parametrize("name", ["switch", "server"])
def test_the_program_takes_the_arguments_and_answers_the_probes(started, name):
    process, port, metrics = started(name)
    container = container_of(name)
    for probe in ("readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == "metrics"
        page = urllib.request.urlopen(f"http://127.0.0.1:{metrics}{asked['path']}", timeout=SECONDS)
        assert page.status == 200 and b"atp_node_info" in page.read()
    status = subprocess.run([PROGRAM, "status", f"127.0.0.1:{port}"], capture_output=True)
    assert status.returncode == 0
    assert process.running()


def test_before_a_server_is_stopped_it_drains(started):
    process, port, _ = started("server")
    (words,) = (h["exec"]["command"] for h in container_of("server")["lifecycle"].values())
    assert words[:2] == ["sh", "-c"]
    command = words[2].replace("$HOST_IP:5500", f"127.0.0.1:{port}")
    assert command != words[2]
    subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": str(PROGRAM.parent)}, timeout=SECONDS, check=True, capture_output=True,
    )  # fmt: skip
    assert process.wait(SECONDS) == 0
    assert "drained: ended" in process.output()


def test_a_server_is_stopped_only_after_its_drain():
    (pod,) = pods(FOLDER / "server.yaml")
    wait = int(re.search(r"--wait (\d+)", str(pod["containers"][0]["lifecycle"]))[1])
    assert pod["terminationGracePeriodSeconds"] > wait


def test_the_job_s_parts_agree():
    service, job = documents(FOLDER / "job.yaml")
    spec, (pod,) = job["spec"], pods(FOLDER / "job.yaml")
    env = {e["name"]: e["value"] for e in pod["containers"][0]["env"]}
    assert spec["completions"] == spec["parallelism"] == int(env["WORLD_SIZE"])
    assert spec["backoffLimit"] == 0 and pod["restartPolicy"] == "Never"
    # Kubernetes labels the pods of a Job itself.
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert env["MASTER_ADDR"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    # docs/operate/operations.md, "Ports".
    assert int(env["MASTER_PORT"]) == 29500 + int(env["ATP_JOB"]) % 1000


def test_the_job_runs_its_ranks_over_its_route(started, tmp_path):
    """The environment that the manifest gives, with a benchmark instead of the training."""
    _, switch_port, _ = started("switch")
    _, server_port, _ = started("server")
    (pod,) = pods(FOLDER / "job.yaml")
    (container,) = pod["containers"]
    env = {e["name"]: e["value"] for e in container["env"]}
    route = env["ATP_ROUTE"].replace("10.0.0.1:5501", f"127.0.0.1:{switch_port}")
    env["ATP_ROUTE"] = route.replace("10.0.0.9:5500", f"127.0.0.1:{server_port}")
    command = container["command"][2]
    assert command.endswith("exec python train.py")
    bench = f"exec {PROGRAM} bench allreduce -b 64K -e 64K -n 3"
    command = command.replace("exec python train.py", bench)
    ranks = [
        Process(
            ["sh", "-c", command],
            tmp_path / f"rank{index}.log",
            {
                **env,
                "JOB_COMPLETION_INDEX": str(index),
                "ATP_INCARNATION": "1",
                "ATP_HOST_MEMORY": "0",
            },
        )
        for index in range(int(env["WORLD_SIZE"]))
    ]
    for rank in ranks:
        assert rank.wait(SECONDS) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()
    ends = f"127.0.0.1:{switch_port} > 127.0.0.1:{server_port}"
    assert f"4 ranks, route {ends}" in ranks[0].output()
