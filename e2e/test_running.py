"""Stories of one dataflow that runs and stays well: rescaled, watched, called upon by an intruder, and left alone by the API server."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

import prometheus
import stage as stages
from dashboards import NOT_HERE, P99, empty_panels
from dataflow import Dataflow
from faults.control_plane import without_api_server
from kube import Kube, until
from stage import Stage
from story import Story
from workloads.minimal import WATCHER

PAUSE_SECONDS_MAX = 30.0
"""Ready means an epoch within so many seconds; a rescale must not need longer either."""
AWAY_SECONDS = 60


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


def test_rescale(running: Dataflow, story: Story) -> None:
    """2 to 4 to 3 executors by `kubectl scale`; every row of every epoch is right, and none is late by much."""
    with story.act():
        for replicas in (4, 3):
            running.scale(replicas)
            running.await_settled()
            assert sorted(running.bins()) == [str(slot) for slot in range(replicas)]
            assert len(running.pods("executor")) == replicas
    running.await_epochs(5)
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert story.pause <= PAUSE_SECONDS_MAX, story.line
    assert running.status["replicas"] == 3
    assert running.has("Ready")


def test_processes_share_their_classes(scene: Stage, running: Dataflow) -> None:
    """Every Java process of the dataflow maps the archive that the image has; whatever makes it unfit would be silent."""
    look = "import pathlib; processes = [p for p in pathlib.Path('/proc').iterdir() if p.name.isdigit()]; "
    look += "java = [p for p in processes if b'/bin/java' in (p / 'cmdline').read_bytes().split(b'\\0')[0]]; "
    look += "print(len(java), sum('spark.jsa' in (p / 'maps').read_text() for p in java))"
    for pod, container, least in (
        (running.driver, "driver", 1),
        (running.driver, "master", 1),
        (running.executor(0), "worker", 2),
    ):
        found, sharing = map(int, scene.kube("exec", pod, "--container", container, "--", "python", "-c", look).split())
        assert found == sharing >= least, (container, found, sharing)


def test_watched(scene: Stage, running: Dataflow, story: Story, tmp_path: Path) -> None:
    """A Prometheus finds drivers and operator by the PodMonitors; a rescale shows in rules and on both dashboards, and no alert fires."""
    with prometheus.watching(scene.kube, stages.SYSTEM, tmp_path) as watched:
        begun = time.time()
        until("both targets", 60, lambda: {line.labels["job"] for line in watched.at("up == 1", time.time())}
              == {"binshift-dataflow", "binshift-operator"})  # fmt: skip
        running.await_epochs(15)
        with story.act():
            running.scale(4 if running.object["spec"]["replicas"] != 4 else 2)
            running.await_settled()
        running.await_epochs(10)
        latency = {line.labels["moving"]: line for line in watched.at(P99, time.time())}
        assert {"true", "false"} == latency.keys()
        assert {line.labels["dataflow"] for line in latency.values()} == {running.name}
        assert empty_panels(watched, "dataflow", scene.kube.namespace, running.name, begun) <= NOT_HERE["dataflow"]
        assert empty_panels(watched, "operator", stages.SYSTEM, "", begun) <= NOT_HERE["operator"]
        firing = {name for name, state in prometheus.alerts(watched).items() if state == "firing"}
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert firing <= {"BinshiftLatencyWhileMoving"}, "bins may move at a latency of more than two seconds on two cores"


def test_intruder(scene: Stage, running: Dataflow, story: Story) -> None:
    """A pod in the dataflow's namespace, without its token and secret, changes nothing: no write to the control API, no Spark RPC."""
    host, before = f"{running.driver}.{running.name}-driver", running.bins()
    intruder = ("exec", WATCHER, "--", "python", "/scripts/intruder.py")
    with story.act():
        statuses = json.loads(scene.kube(*intruder, "http", f"http://{host}:7400"))
        printed = scene.kube(*intruder, "spark", f"spark://{host}:7077", seconds=180)
    assert set(statuses) <= {401, 403}, statuses
    assert "let in" not in printed
    running.await_epochs(3)
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
    assert running.bins() == before


def test_api_server_away(scene: Stage, running: Dataflow, story: Story) -> None:
    """For a minute the API server cannot be reached: no epoch is missed for it, no pod restarts, and then a rescale works."""
    if not scene.cluster.own:
        pytest.skip("only on a node of our own")
    pods, epoch = running.pod_uids(), running.epoch
    with story.act(), without_api_server(scene.cluster):
        time.sleep(AWAY_SECONDS)
    assert running.epoch > epoch
    assert running.pod_uids() == pods
    running.scale(len(running.bins()) - 1)
    running.await_settled()
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples


def test_plugin(scene: Stage, running: Dataflow, story: Story) -> None:
    """`kubectl binshift` finds the driver through the API server: bins, conditions, and a rescale until its end."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{scene.kube.environment['PATH']}"
    kube = Kube({**scene.kube.environment, "PATH": path}, scene.kube.namespace)

    def plugin(*arguments: str, seconds: float = 60.0) -> str:
        return kube.command("kubectl", "binshift", *arguments, "--namespace", kube.namespace, seconds=seconds)

    status = json.loads(plugin("status", running.name, "--output", "json"))
    assert {"Ready", "Progressing", "Degraded"} <= {each["type"] for each in status["conditions"]}
    assert status["dataflow"]["state"] == "Running"
    loads = json.loads(plugin("bins", running.name, "--output", "json"))["workers"]
    assert {str(each["worker"]): each["bins"] for each in loads if each["bins"]} == running.bins()
    with story.act():
        replicas = 3 if running.object["spec"]["replicas"] != 3 else 2
        running.scale(replicas)
        watched = plugin("migrations", running.name, "--watch", seconds=300.0)
    assert running.bins().keys() == {str(slot) for slot in range(replicas)}, watched
    assert "settled" in watched.splitlines()[-1]
    plugin("rebalance", running.name)
    running.await_settled()
    assert len(plugin("top", running.name).splitlines()) >= 1 + replicas
    judged = story.judge(running)
    assert judged.wrong == 0, judged.examples
