"""The guides for the first dataflow and for rescaling: their commands, taken out of the markdown, are run in order as they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from guides import lines, text

from clusters import ROOT
from kube import Kube, documents
from stage import Stage
from story import Story
from workloads import minimal

BUILDING = ("scripts/", "docker ", "kind ")
"""Commands that make and bring images; the stage has done it, by whatever means this cluster has."""
COMMAND_SECONDS_MAX = 660.0
"""The guides' own time limits are ten minutes."""


def test_first_dataflow_and_rescale(scene: Stage, told: Story, tmp_path: Path) -> None:
    """Whoever types what the two guides say has a dataflow that runs, is rescaled out and in, rests, goes on, and is gone at the end."""
    type_in = shell(scene, tmp_path)
    if scene.cluster.storage_class:
        scene.kube("create", "--filename", "-", stdin=claim(scene.cluster.storage_class))
    first = [line for line in lines(text("first-dataflow.md")) if not line.startswith(BUILDING)]
    said = [type_in(line) for line in first]
    assert len(said) >= 6
    assert "epoch=" in said[-1], "there are no results"
    replicas = []
    for line in lines(text("rescale.md")):
        said.append(type_in(line))
        if "settledGeneration" in line:
            replicas.append(len(scene.kube.list("pods", "app.kubernetes.io/component=executor")))
    assert replicas == [4, 3]
    assert scene.kube("get", "streamingdataflow", "--output", "name") == ""
    told.note(f"{len(said)} commands of the guides")


def shell(scene: Stage, folder: Path) -> Callable[[str], str]:
    """What runs a line as a person's shell would, with the story's namespace as the usual one."""
    config = folder / "kubeconfig"
    config.write_text(scene.kube("config", "view", "--raw", "--flatten"), encoding="utf-8")
    config.chmod(0o600)
    person = Kube({**scene.kube.environment, "KUBECONFIG": str(config)}, scene.kube.namespace)
    person("config", "set-context", "--current")  # kubectl's own --namespace makes it the usual one

    def type_in(line: str) -> str:
        return person.command("sh", "-ec", f"cd '{ROOT}'\n{line}", seconds=COMMAND_SECONDS_MAX)

    return type_in


def claim(storage_class: str) -> str:
    """The example's claim, of a storage class."""
    return documents(minimal.objects(storage_class)[:1])
