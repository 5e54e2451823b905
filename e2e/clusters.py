"""Which cluster the stories run on, and how images get there.

With KUBECONFIG set, that cluster; three more variables set how images reach its nodes:

| variable | default | for |
|---|---|---|
| ``BINSHIFT_E2E_BUILD`` | ``docker build`` | building: gets ``-t NAME``, options and a folder |
| ``BINSHIFT_E2E_LOAD`` | none, has to be set | loading: gets the image's name |
| ``BINSHIFT_E2E_STORAGE_CLASS`` | the cluster's default | volumes, which have to be ReadWriteMany |

Without KUBECONFIG, a node of our own (`cluster/`), which is brought up and left up: a second run finds it there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kube import given_environment
from waits import timed

ROOT = Path(__file__).resolve().parents[1]
NODE = ROOT / "e2e" / "cluster" / "cluster.sh"
UP_SECONDS_MAX = 3000.0
"""Kubernetes is built in the first one."""
IMAGE_SECONDS_MAX = 1200.0


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up.

    Attributes:
        environment: in which kubectl and helm find it.
        storage_class: of volumes; empty for the default one.
        own: whether it is our own node, whose processes a fault may end.
    """

    environment: Mapping[str, str] = field(repr=False)
    storage_class: str
    own: bool

    def build(self, name: str, folder: Path, *options: str) -> None:
        """Build an image that others start from."""
        build = [str(NODE), "build", name, str(folder), *options]
        if not self.own:
            build = [
                *shlex.split(os.environ.get("BINSHIFT_E2E_BUILD", "docker build")),
                "-t",
                name,
                *options,
                str(folder),
            ]
        _run(build, IMAGE_SECONDS_MAX)

    def image(self, name: str, folder: Path, *options: str) -> None:
        """Build an image and bring it to the nodes; quick if nothing changed."""
        if self.own:
            _run([str(NODE), "image", name, str(folder), *options], IMAGE_SECONDS_MAX)
            return
        self.build(name, folder, *options)
        _run([*shlex.split(os.environ["BINSHIFT_E2E_LOAD"]), name], IMAGE_SECONDS_MAX)

    def tidy(self) -> None:
        """Make volumes that were used usable again, where that is ours to do."""
        if self.own:
            _run([str(NODE), "volumes"], 60)


def bring_up() -> Cluster:
    """The cluster to use.

    Raises:
        LookupError: KUBECONFIG is set, but not how images are loaded.
    """
    given = os.environ.get("KUBECONFIG")
    if given is None:
        _run([str(NODE), "up"], UP_SECONDS_MAX)
        return Cluster(_own_environment(), "", own=True)
    if "BINSHIFT_E2E_LOAD" not in os.environ:
        raise LookupError(
            "KUBECONFIG is set; set BINSHIFT_E2E_LOAD too, e.g. to 'kind load docker-image' (see e2e/README.md)"
        )
    return Cluster(given_environment(), os.environ.get("BINSHIFT_E2E_STORAGE_CLASS", ""), own=False)


def _own_environment() -> dict[str, str]:
    printed = subprocess.run([NODE, "env"], capture_output=True, text=True, check=True).stdout
    found = re.fullmatch(r"export KUBECONFIG=(\S+) PATH=(\S+):\$PATH\n", printed)
    assert found is not None, printed
    return given_environment(found[1]) | {"PATH": f"{found[2]}:{os.environ['PATH']}"}


def _run(command: Sequence[str], seconds: float) -> None:
    with timed(shlex.join(command)):
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False
        )
    assert done.returncode == 0, f"{shlex.join(command)}:\n{done.stdout[-4000:]}"
