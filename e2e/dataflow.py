"""One StreamingDataflow as the stories see it: what `kubectl` shows of it, and what one does to it.

Reads the object's status and its pods, never the operator's own insides; what can only be known from the driver is asked
of the driver, through the API server.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from kube import Kube, until

KIND = "streamingdataflow"
DRIVER, EXECUTOR = "driver", "executor"
HEALTH_PORT = 7401
READY_SECONDS_MAX = 300.0
CALM_EPOCHS = 4
"""So many before a story: what it does is compared with them."""
SETTLED_SECONDS_MAX = 420.0


@dataclass(frozen=True)
class Dataflow:
    """A dataflow that was applied.

    Attributes:
        kube: the namespace it is in.
        name: of the object.
    """

    kube: Kube
    name: str

    @property
    def object(self) -> dict[str, Any]:
        """The whole object, as it is now."""
        return self.kube.get(KIND, self.name)

    @property
    def status(self) -> dict[str, Any]:
        """Its status; empty before there is one."""
        status: dict[str, Any] = self.object.get("status", {})
        return status

    def condition(self, kind: str) -> dict[str, Any]:
        """One of its conditions; empty before there is one."""
        conditions = self.status.get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def has(self, kind: str, status: str = "True", reason: str | None = None) -> bool:
        """Whether a condition has this status and reason."""
        condition = self.condition(kind)
        return condition.get("status") == status and reason in (None, condition.get("reason"))

    def await_condition(
        self, kind: str, status: str = "True", reason: str | None = None, seconds: float = READY_SECONDS_MAX
    ) -> dict[str, Any]:
        """The condition, as soon as it has this status and reason."""
        wanted = f"{kind}={status}" + (f" for {reason}" if reason else "")
        try:
            return until(wanted, seconds, lambda: self.condition(kind) if self.has(kind, status, reason) else None)
        except AssertionError as late:
            raise AssertionError(f"{late}; the status is {json.dumps(self.status)}") from late

    def await_settled(self, seconds: float = SETTLED_SECONDS_MAX) -> None:
        """Wait until the newest edit has taken effect."""

        def settled() -> bool:
            now = self.object
            return bool(now.get("status", {}).get("settledGeneration") == now["metadata"]["generation"])

        try:
            until("settledGeneration", seconds, settled)
        except AssertionError as late:
            raise AssertionError(f"{late}; the status is {json.dumps(self.status)}") from late

    def scale(self, replicas: int) -> None:
        """As `kubectl scale` does."""
        self.kube("scale", KIND, self.name, f"--replicas={replicas}")

    def edit(self, **spec: Any) -> None:
        """Merge into ``spec``."""
        self.kube.patch(KIND, self.name, {"spec": spec})

    def pods(self, component: str | None = None) -> list[dict[str, Any]]:
        """Its pods, by name."""
        selector = f"app.kubernetes.io/instance={self.name},binshift.dev/dataflow-uid"
        if component:
            selector += f",app.kubernetes.io/component={component}"
        return sorted(self.kube.list("pods", selector), key=lambda pod: str(pod["metadata"]["name"]))

    def pod_uids(self) -> dict[str, str]:
        """Name to UID of its pods."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods()}

    @property
    def driver(self) -> str:
        """The name of the driver's pod; of two, that of the active one."""
        return str(self.drivers.get("active") or f"{self.name}-driver-0")

    @property
    def drivers(self) -> dict[str, Any]:
        """The status of the drivers; empty without a standby."""
        found: dict[str, Any] = self.status.get("driver", {})
        return found

    def executor(self, slot: int) -> str:
        """The name of an executor's pod."""
        return f"{self.name}-executor-{slot}"

    @property
    def epoch(self) -> int:
        """The newest epoch, from the driver's metrics."""
        return int(self.metric("binshift_epoch"))

    def metrics(self) -> str:
        """What Prometheus would scrape."""
        path = f"/api/v1/namespaces/{self.kube.namespace}/pods/{self.driver}:{HEALTH_PORT}/proxy/metrics"
        return self.kube("get", "--raw", path)

    def metric(self, name: str) -> float:
        """One metric without labels.

        Raises:
            KeyError: it is not there.
        """
        found = re.search(rf"^{name} (\S+)$", self.metrics(), re.MULTILINE)
        if found is None:
            raise KeyError(name)
        return float(found[1])

    def bins(self) -> dict[str, int]:
        """How many bins each worker owns, from the driver's metrics."""
        found = re.findall(r'^binshift_worker_bins\{worker="(\d+)"\} (\S+)$', self.metrics(), re.MULTILINE)
        return {worker: int(float(count)) for worker, count in found}

    def await_epochs(self, count: int, seconds: float = 180.0) -> None:
        """Until so many further epochs have been committed."""
        first = until("the driver's metrics", seconds, lambda: (self.epoch,))[0]
        until(f"{count} epochs after {first}", seconds, lambda: self.epoch >= first + count)

    def await_calm(self) -> None:
        """Until it is Ready and settled, and some epochs have gone by like that."""
        self.await_condition("Ready")
        self.await_settled()
        self.await_epochs(CALM_EPOCHS)

    def await_moving(self, seconds: float = 300.0) -> None:
        """Until a migration under way has moved a quarter of its bins, but not all of them."""

        def moving() -> bool:
            moved, planned = (
                self.metric("binshift_migration_moved_bins"),
                self.metric("binshift_migration_planned_bins"),
            )
            return 0 < planned / 4 <= moved < planned

        until("a migration under way", seconds, moving, every=0.1)

    def events(self) -> list[str]:
        """Reasons of the events about it, the oldest first."""
        selector = f"--field-selector=involvedObject.kind=StreamingDataflow,involvedObject.name={self.name}"
        answer = json.loads(self.kube("get", "events", selector, "--sort-by=.metadata.creationTimestamp", "-o", "json"))
        return [str(event["reason"]) for event in answer["items"]]
