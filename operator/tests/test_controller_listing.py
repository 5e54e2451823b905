"""The periodic listing of a controller, when it fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.registry import CollectorRegistry

from binshift_operator.controller import LIST_RETRY_SECONDS, Controller
from binshift_operator.kube import Kube
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import SNAPSHOT_KIND
from binshift_operator.reconcile import Result
from binshift_operator.work_queue import WorkQueue

RESYNC_SECONDS = 300.0


@dataclass
class Answers:
    """An API server, and the time between its requests: each listing is answered by the next status, and the last one ends the controller."""

    statuses: list[int]
    waits: list[float] = field(default_factory=list)

    def __call__(
        self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str
    ) -> tuple[int, bytes]:
        """See `Transport`."""
        status = self.statuses.pop(0)
        return status, json.dumps({"items": [], "message": f"answer {status}"}).encode()

    def is_set(self) -> bool:
        """As an event: whether the controller ends."""
        return not self.statuses

    def wait(self, seconds: float) -> None:
        """As an event: time passes."""
        self.waits.append(seconds)


@pytest.mark.parametrize(
    ("statuses", "waits", "warnings"),
    [
        ([404, 404, 404], [RESYNC_SECONDS] * 3, 1),
        ([403, 403, 200, 403], [RESYNC_SECONDS] * 4, 2),
        ([503, 503, 200], [LIST_RETRY_SECONDS, LIST_RETRY_SECONDS, RESYNC_SECONDS], 2),
    ],
)
def test_listing_that_fails(
    statuses: list[int], waits: list[float], warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the CRD or the right it is as seldom as any other, and logged once; an API server that is away is tried again soon."""
    server = Answers(statuses)
    parts = WorkQueue(lambda: 0.0), lambda *key: Result(), Kube(server), OperatorMetrics(CollectorRegistry())
    controller = Controller(*parts, (), RESYNC_SECONDS, 1, kind=SNAPSHOT_KIND)
    controller._stopping = server  # type: ignore[assignment]
    controller._list_periodically()
    assert server.waits == waits
    assert len(caplog.records) == warnings
