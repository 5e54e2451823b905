"""What Kopf is used for: watching. Events wake the schedule, and nothing else is done with them.

Only `kopf.on.event` is registered: handlers of other kinds, timers and daemons would put finalizers and annotations on users'
objects, and a finalizer keeps an object from going for as long as its operator is away. A test sees to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import kopf

from binshift_operator.model.names import FIELD_MANAGER, GROUP, LABEL_INSTANCE, LABEL_MANAGED_BY, PLURAL, VERSION
from binshift_operator.schedule import Place

PREFIX = f"operator.{GROUP}"
"""Of annotations, if Kopf ever wrote any."""
SERVER_SECONDS = 300
CLIENT_SECONDS = 330
CONNECT_SECONDS = 15
REQUEST_SECONDS = 60
CHUNK = 500
CHILDREN = ("pods", "statefulsets")
"""Kinds of children whose events wake."""
OURS = {LABEL_MANAGED_BY: FIELD_MANAGER}
"""The label that all children have."""


def registry(wake: Callable[[Place], None], selector: str = "") -> kopf.OperatorRegistry:
    """The handlers: all of them wake the dataflow that an event is about; ``selector``: of the dataflows that are watched."""
    found = kopf.OperatorRegistry()

    known: dict[str, tuple[int, bool]] = {}

    async def of_dataflow(
        namespace: str | None, name: str | None, uid: str | None, meta: Any, type: Any, **_: Any
    ) -> None:
        # Our own status is an event, too: to look because we have written would never end.
        seen = int(meta.get("generation") or 0), "deletionTimestamp" in meta
        if type != "DELETED" and known.get(uid or "") == seen:
            return
        known[uid or ""] = seen
        if type == "DELETED":
            del known[uid or ""]
        wake((namespace or "", name or ""))

    async def of_child(namespace: str | None, labels: Any, **_: Any) -> None:
        if LABEL_INSTANCE in labels:
            wake((namespace or "", labels[LABEL_INSTANCE]))

    kopf.on.event(GROUP, VERSION, PLURAL, id="dataflow", registry=found)(of_dataflow)
    for resource in CHILDREN:
        kopf.on.event(resource, id=resource, labels=OURS, registry=found)(of_child)
    kopf.on.startup(id="configure", registry=found)(partial(configure, selector=selector))
    # A registry of our own has no way of its own to log in; this one reads a rotated token again when the old one is refused.
    kopf.on.login(id="login", registry=found)(kopf.login_via_client)
    return found


async def configure(settings: kopf.OperatorSettings, selector: str = "", **_: Any) -> None:
    """Settings fit for running for months: time limits everywhere, nothing of Kopf's on users' objects."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = CLIENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.chunk_size = CHUNK
    # A handler's labels filter what has arrived: without these, every pod of the cluster would be listed and watched.
    for resource in CHILDREN:
        settings.watching.label_selectors[resource] = ",".join(f"{name}={value}" for name, value in OURS.items())
    if selector:
        settings.watching.label_selectors[PLURAL] = selector
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.persistence.finalizer = f"{PREFIX}/never"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, v1=False)
