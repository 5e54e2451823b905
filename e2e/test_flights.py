"""The flights example on Kubernetes: its manifest applied, rescaled while flights come in, its answer compared with pandas'."""

from __future__ import annotations

from clusters import ROOT
from dataflow import Dataflow
from stage import FLIGHTS_IMAGE, MINIMAL_IMAGE, Stage
from story import Story
from workloads import flights, minimal


def test_flights(scene: Stage, story: Story) -> None:
    """Ready, `kubectl scale` to 4, and every statistic of every aircraft, route and hour equals pandas' result."""
    scene.cluster.image(FLIGHTS_IMAGE, ROOT, "--file", str(flights.FOLDER / "Dockerfile"))
    scene.kube.apply(*flights.objects(scene.cluster.storage_class), *minimal.watcher(MINIMAL_IMAGE, flights.NAME))
    dataflow = Dataflow(scene.kube, flights.NAME)
    dataflow.await_condition("Ready")
    dataflow.await_epochs(5)
    dataflow.scale(4)
    dataflow.await_settled()
    dataflow.await_epochs(5)
    judged = flights.judge(scene.kube)
    story.note(f"{judged['rows']} flights in {judged['epoch'] + 1} epochs, wrong rows {len(judged['differences'])}")
    assert judged["differences"] == []
    assert sorted(dataflow.bins()) == ["0", "1", "2", "3"]
