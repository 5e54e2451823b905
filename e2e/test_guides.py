"""The guides from the images to a rescaled dataflow: their commands, taken out of the markdown, are run in order as they stand.

Nothing is left out and no name is changed: the images are built and loaded as written, the chart is installed with its defaults, and
the dataflow lives in the namespace `default`. The node built here has neither Docker nor kind; two stand-ins carry their lines
out by buildah and containerd.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from guides import lines, text

from clusters import ROOT, Cluster
from dataflow import KIND
from kube import Kube, Refused
from stage import RELEASE, SYSTEM
from story import Story

STAND_INS = ROOT / "e2e" / "cluster" / "stand-ins"
ALLOWED = "BINSHIFT_E2E_GUIDES"
"""Set, it lets the story have a cluster that is not ours: there it uninstalls the chart and deletes what is called minimal."""
VOLUME = Path("/var/local/minimal")
"""The folder of the node that the guide makes."""
COMMAND_SECONDS_MAX = 1200.0
"""Images are built; the guides' own time limits are ten minutes."""


@pytest.fixture
def newcomer(cluster: Cluster, chart: None) -> Iterator[Kube]:
    """A cluster without the chart and without the dataflow, as at the start of the guides."""
    if why := spared(cluster):
        pytest.skip(why)
    environment = dict(cluster.environment)
    if cluster.own:
        environment["PATH"] = f"{STAND_INS}:{environment['PATH']}"
    kube = Kube(environment, "default")
    leave_nothing(kube, cluster)
    kube.elsewhere(SYSTEM).helm("uninstall", RELEASE, "--wait")
    yield kube
    leave_nothing(kube, cluster)
    cluster.tidy()


def test_guides_from_images_to_rescale(newcomer: Kube, story: Story, tmp_path: Path) -> None:
    """Typing the lines of three guides gives an operator and a dataflow that runs, is rescaled out and in, suspended, resumed and deleted."""
    type_in = shell(newcomer, tmp_path)
    printed = [type_in(line) for guide in ("install.md", "first-dataflow.md") for line in lines(text(guide))]
    assert "epoch=" in printed[-1], "there are no results"
    replicas = []
    for line in lines(text("rescale.md")):
        printed.append(type_in(line))
        if "settledGeneration" in line:
            replicas.append(len(newcomer.list("pods", "app.kubernetes.io/component=executor")))
    assert replicas == [4, 3]
    assert newcomer("get", "streamingdataflow", "--output", "name") == ""
    story.note(f"{len(printed)} commands of the guides")


def shell(kube: Kube, folder: Path) -> Callable[[str], str]:
    """Runs a line as a user's shell would, with the story's namespace as the default."""
    config = folder / "kubeconfig"
    config.write_text(kube("config", "view", "--raw", "--flatten"), encoding="utf-8")
    config.chmod(0o600)
    person = Kube({**kube.environment, "KUBECONFIG": str(config)}, kube.namespace)
    person("config", "set-context", "--current")  # kubectl's own --namespace makes it the usual one

    def type_in(line: str) -> str:
        return person.command("sh", "-ec", f"cd '{ROOT}'\n{line}", seconds=COMMAND_SECONDS_MAX)

    return type_in


def spared(cluster: Cluster) -> str:
    """Why the guides are not tried on a cluster; empty if they are."""
    if cluster.own:
        return ""
    if ALLOWED not in os.environ:
        return (
            f"the guides take a whole cluster: with {ALLOWED}=1, the one of KUBECONFIG, where they uninstall {RELEASE}"
        )
    if shutil.which("kind") is None:
        return "the guides are for kind: on another cluster, images and volumes are made differently"
    return ""


def leave_nothing(kube: Kube, cluster: Cluster) -> None:
    """Delete what the guides make, by its name: nothing else in the namespace is theirs."""
    with suppress(Refused):  # the definition is perhaps not installed yet
        kube("delete", KIND, "minimal", "--ignore-not-found", "--timeout=120s", seconds=130)
    kube("delete", "pods", "--selector=app.kubernetes.io/instance=minimal", "--grace-period=0", "--force")
    kube("delete", "persistentvolumeclaim", "minimal", "--ignore-not-found")
    kube("delete", "persistentvolume", "minimal", "--ignore-not-found")
    if cluster.own:  # its node's file system is this machine's
        shutil.rmtree(VOLUME, ignore_errors=True)
