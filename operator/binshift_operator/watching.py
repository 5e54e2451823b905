"""Kopf's event handlers: an event adds its object to a work queue, and does nothing else.

Only `kopf.on.event` is used: other handlers, timers and daemons would add finalizers and annotations to users' objects, and a finalizer
blocks deletion while the operator is down. A test enforces this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import kopf

from binshift_operator.model.names import (
    ANNOTATION_PAUSED,
    FIELD_MANAGER,
    GROUP,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    PLURAL,
    SNAPSHOT_PLURAL,
    VERSION,
)
from binshift_operator.model.node_taints import Taints, going_taints
from binshift_operator.snapshot_codec import is_unfinished
from binshift_operator.snapshot_schedules import has_schedule
from binshift_operator.work_queue import ObjectKey

PREFIX = f"operator.{GROUP}"
"""Prefix of Kopf's annotations, should it ever write any."""
SERVER_SECONDS = 300
CLIENT_SECONDS = 330
CONNECT_SECONDS = 15
REQUEST_SECONDS = 60
CHUNK = 500
IDLE_SECONDS = 0.5
"""How long Kopf keeps the last event of each object in memory: nodes are large, and all are listed at once."""
CHILDREN = ("pods", "statefulsets")
"""Kinds of children that are watched."""
CHILD_LABELS = {LABEL_MANAGED_BY: FIELD_MANAGER}
"""The label of all children."""


def _ignore(key: ObjectKey) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """What is called with the name of an object after an event.

    Attributes:
        dataflow: with a dataflow, after an event about it or one of its children.
        schedule: with a dataflow whose schedule of snapshots may have changed.
        snapshot: with a snapshot that is new, or was found at the start of a watch, and has not ended.
        node: with each node of an event, and the taints by which it is about to go.

    Without a listener for snapshots or nodes, these are not watched: a watch without the right to it would end the process.
    """

    dataflow: Callable[[ObjectKey], None]
    schedule: Callable[[ObjectKey], None] = _ignore
    snapshot: Callable[[ObjectKey], None] | None = None
    node: Callable[[str, Taints], None] | None = None

    async def on_snapshot_event(self, namespace: str | None, name: str | None, type: Any, body: Any, **_: Any) -> None:
        """React to an event about a snapshot: its spec never changes, and its status is the operator's own."""
        if self.snapshot is not None and type in (None, "ADDED") and is_unfinished(body):
            self.snapshot((namespace or "", name or ""))

    async def on_node_event(self, name: str | None, spec: Any, type: Any, **_: Any) -> None:
        """React to an event about a node."""
        if self.node is not None:
            self.node(name or "", () if type == "DELETED" else going_taints(spec))


def registry(on: Listeners, selector: str = "") -> kopf.OperatorRegistry:
    """The handlers. ``selector``: label selector of the watched dataflows."""
    handlers = kopf.OperatorRegistry()
    known: dict[str, tuple[int, bool, str]] = {}

    async def on_dataflow_event(
        namespace: str | None, name: str | None, uid: str | None, meta: Any, type: Any, body: Any, **_: Any
    ) -> None:
        # The operator's own status updates are events, too: reacting to them would reconcile forever.
        paused = str((meta.get("annotations") or {}).get(ANNOTATION_PAUSED))
        version = int(meta.get("generation") or 0), "deletionTimestamp" in meta, paused
        if type != "DELETED" and known.get(uid or "") == version:
            return
        known[uid or ""] = version
        if type == "DELETED":
            del known[uid or ""]
        on.dataflow((namespace or "", name or ""))
        if has_schedule(body):
            on.schedule((namespace or "", name or ""))

    async def on_child_event(namespace: str | None, labels: Any, **_: Any) -> None:
        if LABEL_INSTANCE in labels:
            on.dataflow((namespace or "", labels[LABEL_INSTANCE]))

    kopf.on.event(GROUP, VERSION, PLURAL, id="dataflow", registry=handlers)(on_dataflow_event)
    if on.snapshot is not None:
        kopf.on.event(GROUP, VERSION, SNAPSHOT_PLURAL, id="snapshot", registry=handlers)(on.on_snapshot_event)
    if on.node is not None:
        kopf.on.event("", "v1", "nodes", id="nodes", registry=handlers)(on.on_node_event)
    for resource in CHILDREN:
        kopf.on.event(resource, id=resource, labels=CHILD_LABELS, registry=handlers)(on_child_event)
    kopf.on.startup(id="configure", registry=handlers)(partial(configure, selector=selector))
    # A custom registry has no login handler; this one rereads a rotated token when the old one is rejected.
    kopf.on.login(id="login", registry=handlers)(kopf.login_via_client)
    return handlers


async def configure(settings: kopf.OperatorSettings, selector: str = "", **_: Any) -> None:
    """Set timeouts for everything, and keep Kopf from writing to users' objects."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = CLIENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.chunk_size = CHUNK
    settings.queueing.idle_timeout = IDLE_SECONDS
    # A handler's labels filter on the client: without these selectors, all pods of the cluster would be listed and watched.
    for resource in CHILDREN:
        settings.watching.label_selectors[resource] = ",".join(
            f"{name}={value}" for name, value in CHILD_LABELS.items()
        )
    if selector:
        settings.watching.label_selectors[PLURAL] = selector
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.persistence.finalizer = f"{PREFIX}/never"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, v1=False)
