"""Every alert of the chart, caused: a real Prometheus evaluates the rules, at the speed of stories (`quick_rules`), and each fires for what was done.

That none fires where nothing is wrong is another story's (`test_running`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_ranges import Prometheus

import prometheus
import stage
from clusters import ROOT
from dataflow import Dataflow
from faults import pods
from kube import Kube, until
from quick_rules import quick
from stage import Stage
from story import Story
from workloads import minimal

FOLDER = ROOT / "e2e" / "workloads" / "growing"
IMAGE = "localhost/binshift-growing:dev"
FIRES_SECONDS_MAX = 240.0
RULES = f"{stage.RELEASE}-operator"


class Bell:
    """What has fired so far.

    Attributes:
        watched: the Prometheus that scraped everything.
    """

    def __init__(self, watched: Prometheus) -> None:
        self.watched = watched

    def rung(self) -> set[tuple[str, str]]:
        """Each alert that fires or has fired, with the dataflow that it is about, if it is about one."""
        lines = self.watched.at('last_over_time(ALERTS{alertstate="firing"}[1h])', time.time())
        return {(line.labels["alertname"], line.labels.get("dataflow", "")) for line in lines}

    def await_rung(self, alert: str, dataflow: str = "") -> None:
        """Until an alert has fired for a dataflow, or for the operator."""
        until(f"{alert} of {dataflow or 'the operator'}", FIRES_SECONDS_MAX, lambda: (alert, dataflow) in self.rung())


def growing(scene: Stage) -> Dataflow:
    """A dataflow whose event time lags, whose state grows and then its log, and that never snapshots."""
    scene.cluster.image(IMAGE, FOLDER)
    claim, made = minimal.objects(scene.cluster.storage_class, migration={"latencyTarget": "10ms"})
    made["spec"] |= {"image": IMAGE, "bins": 64}
    made["spec"]["application"] = {
        "mainFile": "/app/growing.py",
        "args": ["/checkpoint/results", str(int(time.time()))],
    }
    made["spec"]["sparkConf"]["spark.binshift.snapshotCycleEpochs"] = "100000"
    scene.kube.apply(claim, made)
    return Dataflow(scene.kube, minimal.NAME)


def failing(scene: Stage) -> Dataflow:
    """A dataflow whose program fails at once, each time."""
    _, made = minimal.objects(replicas=1, application={"args": ["/checkpoint/other", "--keys", "none"]})
    made["metadata"]["name"] = "failing"
    made["spec"]["checkpoint"]["path"] = "failing"
    scene.kube.apply(made)
    return Dataflow(scene.kube, "failing")


def every_alert() -> set[str]:
    """The names of the chart's alerts."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (stage.CHART / "rules").glob("*.yaml")]
    return {rule["alert"] for file in files for group in file["groups"] for rule in group["rules"] if "alert" in rule}


@pytest.mark.alarms
def test_every_alert_fires(scene: Stage, story: Story, tmp_path: Path) -> None:
    """What each alert is for is done, one after another, and it fires; in the end all have."""
    with prometheus.watching(scene.kube, stage.SYSTEM, tmp_path, quick) as watched:
        bell, dataflow = Bell(watched), growing(scene)
        broken = failing(scene).name
        dataflow.await_condition("Ready")
        dataflow.await_settled()
        for done in (grows, moves, stands_still, lacks_a_worker, falls_silent):
            done(scene, dataflow, bell)
        bell.await_rung("BinshiftNotRunning", broken)
        bell.await_rung("BinshiftDataflowDegraded", broken)
        bell.await_rung("BinshiftCrashLoop", broken)
        loses_rights(scene.system, bell)
        goes_away(scene.system, bell)
        dataflow.await_epochs(3)
        missing = every_alert() - {alert for alert, _ in bell.rung()}
    story.note(f"{len(every_alert())} alerts")
    assert missing == set()


def grows(scene: Stage, dataflow: Dataflow, bell: Bell) -> None:
    """Time by itself does it."""
    for alert in ("StateGrowing", "LogGrowing", "SnapshotsOld", "LagGrowing"):
        bell.await_rung(f"Binshift{alert}", dataflow.name)


def moves(scene: Stage, dataflow: Dataflow, bell: Bell) -> None:
    """No record is committed within the ten milliseconds that are wanted."""
    dataflow.scale(3)
    bell.await_rung("BinshiftLatencyWhileMoving", dataflow.name)
    dataflow.await_settled()


def stands_still(scene: Stage, dataflow: Dataflow, bell: Bell) -> None:
    """Executors are frozen while bins should move; then Python processes are killed repeatedly."""
    dataflow.scale(2)
    until("a migration", 60, lambda: dataflow.has("Migrating"), every=0.1)
    with pods.frozen(scene.kube, *((dataflow.executor(slot), "worker") for slot in range(3))):
        bell.await_rung("BinshiftEpochHangs", dataflow.name)
        bell.await_rung("BinshiftMigrationStuck", dataflow.name)
    dataflow.await_settled()
    until("epochs that run again", FIRES_SECONDS_MAX, lambda: _killed_again(scene.kube, dataflow, bell))


def _killed_again(kube: Kube, dataflow: Dataflow, bell: Bell) -> bool:
    pods.kill_python(kube, dataflow.executor(0))
    dataflow.await_epochs(2)
    return ("BinshiftEpochsRunAgain", dataflow.name) in bell.rung()


def lacks_a_worker(scene: Stage, dataflow: Dataflow, bell: Bell) -> None:
    """An executor's pod is gone, and no node takes another."""
    nodes = [node["metadata"]["name"] for node in scene.kube.list("nodes")]
    scene.kube("cordon", *nodes)
    try:
        pods.kill_pod(scene.kube, dataflow.executor(1))
        bell.await_rung("BinshiftWorkersMissing", dataflow.name)
    finally:
        scene.kube("uncordon", *nodes)
    dataflow.await_condition("Ready")


def falls_silent(scene: Stage, dataflow: Dataflow, bell: Bell) -> None:
    """The driver's container stands still, and its metrics do not answer."""
    with pods.frozen(scene.kube, (dataflow.driver, "driver")):
        bell.await_rung("BinshiftDriverDown", dataflow.name)


def loses_rights(system: Kube, bell: Bell) -> None:
    """The operator loses its permission to read StatefulSets."""
    role = system.get("clusterrole", RULES)
    less = [rule for rule in role["rules"] if "apps" not in rule["apiGroups"]]
    assert len(less) < len(role["rules"])
    with _patched(system, "clusterrole", RULES, {"rules": less}, {"rules": role["rules"]}):
        bell.await_rung("BinshiftReconcileErrors")


def goes_away(system: Kube, bell: Bell) -> None:
    """There is no operator."""
    with _patched(system, "deployment", stage.OPERATOR, {"spec": {"replicas": 0}}, {"spec": {"replicas": 1}}):
        bell.await_rung("BinshiftOperatorDown")


@contextmanager
def _patched(kube: Kube, kind: str, name: str, change: dict[str, Any], back: dict[str, Any]) -> Iterator[None]:
    kube.patch(kind, name, change)
    try:
        yield
    finally:
        kube.patch(kind, name, back)
