"""The quickstart: its commands, taken out of the markdown, are run in order as they stand, on a cluster without the chart.

On the node built here, which cannot pull, the S3 server is built under the name that the manifest has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from guides import FOLDER, lines, text

from clusters import Cluster
from dataflow import KIND, Dataflow
from kube import Kube, Refused
from stage import RELEASE, SYSTEM, install
from story import Story
from test_guides import STAND_INS, shell, spared
from workloads import on_s3

NAME = "quickstart"


@pytest.fixture
def beginner(cluster: Cluster, chart: None) -> Iterator[Kube]:
    """A cluster without the chart, as at the start of the guide; afterwards it has the chart as other stories need it."""
    if why := spared(cluster):
        pytest.skip(why)
    environment = dict(cluster.environment)
    if cluster.own:
        environment["PATH"] = f"{STAND_INS}:{environment['PATH']}"
        on_s3.build(cluster, public_image())
    kube = Kube(environment, "default")
    operator = kube.elsewhere(SYSTEM)
    leave_nothing(kube)
    operator.helm("uninstall", RELEASE, "--wait")
    yield kube
    leave_nothing(kube)
    with suppress(Refused):  # it is perhaps not installed
        operator.helm("uninstall", RELEASE, "--wait")
    install(operator)


def test_quickstart(beginner: Kube, story: Story, tmp_path: Path) -> None:
    """Typing the lines of the guide gives a dataflow on S3, whose bins are on three executors after the first scale."""
    type_in, dataflow = shell(beginner, tmp_path), Dataflow(beginner, NAME)
    typed, workers = 0, []
    for line in lines(text("quickstart.md")):
        printed = type_in(line)
        typed += 1
        if "settledGeneration" in line:
            workers = sorted(dataflow.bins())
            dataflow.await_epochs(2)
        if "status.history" in line:
            assert json.loads(printed)["binsMoved"] > 0
    assert workers == ["0", "1", "2"]
    assert beginner("get", KIND, "--output", "name") == ""
    story.note(f"{typed} commands of the guide")


def public_image() -> str:
    """The S3 server's image, as the manifest names it."""
    documents = yaml.safe_load_all((FOLDER / NAME / "s3.yaml").read_text(encoding="utf-8"))
    (pod,) = (each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment")
    found: str = pod["containers"][0]["image"]
    return found


def leave_nothing(kube: Kube) -> None:
    """Delete what the guide makes, by its name: nothing else in the namespace is its own."""
    with suppress(Refused):  # the definition is perhaps not installed yet
        kube("delete", f"{KIND}/{NAME}", "--ignore-not-found", "--timeout=120s", seconds=130)
    kube("delete", "deployment/s3", "service/s3", "secret/s3", "--ignore-not-found", seconds=130)
