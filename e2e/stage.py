"""What a story plays on: a namespace of its own with the restricted Pod Security Standard enforced, the chart, the images.

Names of images are the examples' own, so that the examples' manifests are used as they are.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from clusters import ROOT, Cluster
from dataflow import KIND, Dataflow
from kube import Kube, Refused
from workloads import minimal

OPERATOR_IMAGE = "localhost/binshift-operator:0.1.0"
"""The chart's default."""
SPARK_IMAGE = "localhost/binshift-spark:dev"
MINIMAL_IMAGE = "localhost/binshift-minimal:dev"
UPGRADED_IMAGE = "localhost/binshift-operator:upgraded"
NEXT_IMAGE = "localhost/binshift-minimal:next"
FLIGHTS_IMAGE = "localhost/binshift-flights:dev"
CHART = ROOT / "charts" / "binshift"
SYSTEM = "binshift-system"
RELEASE = "binshift"
OPERATOR = "binshift-operator"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "binshift.dev/e2e": "true"}


def build_images(cluster: Cluster) -> None:
    """Build and load everything the stories run; quick where nothing changed."""
    cluster.image(OPERATOR_IMAGE, ROOT, "--target", "operator")
    subprocess.run([ROOT / "scripts" / "s3-jars.sh", ROOT / "build" / "s3-jars"], check=True, timeout=600)
    cluster.build(SPARK_IMAGE, ROOT, "--target", "spark")
    cluster.image(MINIMAL_IMAGE, minimal.FOLDER)


def system(cluster: Cluster) -> Kube:
    """The operator's namespace."""
    return Kube(cluster.environment, SYSTEM)


def install(kube: Kube, values: Mapping[str, str] | None = None) -> None:
    """Install the chart, or bring what is installed to it; helm itself leaves a CRD that is there as it is."""
    kube("apply", "--server-side", "--force-conflicts", "--filename", str(ROOT / "crds"))
    options = [word for name, value in (values or {}).items() for word in ("--set", f"{name}={value}")]
    kube.helm("upgrade", "--install", RELEASE, str(CHART), "--wait", "--timeout", "120s", *options)


def renew(kube: Kube) -> None:
    """Have the operator's pod replaced, as an image may have changed under its name."""
    kube("rollout", "restart", f"deployment/{OPERATOR}")
    kube("rollout", "status", f"deployment/{OPERATOR}", "--timeout=120s", seconds=130)


def make_namespace(kube: Kube) -> None:
    """Make the namespace, in which pods have to be restricted."""
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace, "labels": RESTRICTED}})


def sweep(kube: Kube) -> None:
    """Remove the namespaces of stories that were broken off; a dataflow in one would take its share of this machine."""
    left = [each["metadata"]["name"] for each in kube.list("namespace", "binshift.dev/e2e=true")]
    for name in left:
        if name != SYSTEM:
            with suppress(Refused):
                kube.elsewhere(name).delete(KIND, "--all", wait=False)
            kube.elsewhere(name).delete("pods", "--all", grace=0)
            kube.delete("namespace", name)


@dataclass(frozen=True)
class Stage:
    """A story's own namespace.

    Attributes:
        cluster: where it is.
        kube: in this namespace.
    """

    cluster: Cluster
    kube: Kube

    @property
    def system(self) -> Kube:
        """The operator's namespace."""
        return system(self.cluster)

    def apply(self, **changes: Any) -> Dataflow:
        """Apply the minimal example, with these changes of its spec, and what watches it."""
        objects = minimal.objects(self.cluster.storage_class, **changes)
        self.kube.apply(*objects, *minimal.watcher(MINIMAL_IMAGE))
        return Dataflow(self.kube, minimal.NAME)

    def calm(self) -> Dataflow:
        """The one dataflow of a file's stories, applied by whichever comes first; Ready, settled, and calm for some epochs."""
        if not self.kube("get", KIND, minimal.NAME, "--ignore-not-found"):
            self.apply()
        dataflow = Dataflow(self.kube, minimal.NAME)
        dataflow.await_calm()
        return dataflow

    def why(self) -> str:
        """Pods, events and logs, for the report of a failure."""
        parts = [(self.kube, ["describe", KIND]), (self.kube, ["get", "pods", "-o", "wide"])]
        parts.append((self.system, ["logs", f"deployment/{OPERATOR}", "--tail=60"]))
        for pod in self.kube.list("pods"):
            name, containers = pod["metadata"]["name"], pod["spec"]["containers"]
            parts += [(self.kube, ["logs", name, "-c", container["name"], "--tail=40"]) for container in containers]
        printed = []
        for kube, arguments in parts:
            try:
                answer = kube(*arguments)
            except Refused as refusal:
                answer = str(refusal)
            printed.append(f"$ kubectl {' '.join(arguments)}\n{answer}")
        return "\n".join(printed)


@contextmanager
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace, and nothing left of it afterwards."""
    kube = Kube(cluster.environment, f"e2e-{uuid.uuid4().hex[:8]}")
    make_namespace(kube)
    try:
        yield Stage(cluster, kube)
    finally:
        with suppress(Refused):  # a story may have removed the kind itself
            kube.delete(KIND, "--all")
        # The results are taken: nothing has to end cleanly, and the namespace is deleted without a wait.
        kube.delete("jobs", "--all")
        kube.delete("pods", "--all", grace=0)
        kube.delete("persistentvolumeclaims", "--all")
        kube.elsewhere("default").delete("namespace", kube.namespace, wait=False)
        cluster.tidy()
