"""Kopf's event handlers: an event adds its dataflow to the work queue, and does nothing else.

Only `kopf.on.event` is used: other handlers, timers and daemons would add finalizers and annotations to users' objects, and a finalizer
blocks deletion while the operator is down. A test enforces this.
"""

from __future__ import annotations

from collections.abc import Callable
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
    VERSION,
)
from binshift_operator.model.node_taints import Taints, going_taints
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


def registry(
    on_event: Callable[[ObjectKey], None], selector: str = "", on_node: Callable[[str, Taints], None] | None = None
) -> kopf.OperatorRegistry:
    """The handlers; each calls ``on_event`` with the dataflow of the event.

    ``selector``: label selector of the watched dataflows. ``on_node``: called with each node of an event, and the taints by which it is about
    to go; None: nodes are not watched. A watch without the right to it would end the process.
    """
    handlers = kopf.OperatorRegistry()
    known: dict[str, tuple[int, bool, str]] = {}

    async def on_dataflow_event(
        namespace: str | None, name: str | None, uid: str | None, meta: Any, type: Any, **_: Any
    ) -> None:
        # The operator's own status updates are events, too: reacting to them would reconcile forever.
        paused = str((meta.get("annotations") or {}).get(ANNOTATION_PAUSED))
        version = int(meta.get("generation") or 0), "deletionTimestamp" in meta, paused
        if type != "DELETED" and known.get(uid or "") == version:
            return
        known[uid or ""] = version
        if type == "DELETED":
            del known[uid or ""]
        on_event((namespace or "", name or ""))

    async def on_child_event(namespace: str | None, labels: Any, **_: Any) -> None:
        if LABEL_INSTANCE in labels:
            on_event((namespace or "", labels[LABEL_INSTANCE]))

    async def on_node_event(name: str | None, spec: Any, type: Any, **_: Any) -> None:
        if on_node is not None:
            on_node(name or "", () if type == "DELETED" else going_taints(spec))

    kopf.on.event(GROUP, VERSION, PLURAL, id="dataflow", registry=handlers)(on_dataflow_event)
    if on_node is not None:
        kopf.on.event("", "v1", "nodes", id="nodes", registry=handlers)(on_node_event)
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
