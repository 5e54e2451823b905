"""The newest warning about an object, by its controller: in its conditions, or as an event."""

from __future__ import annotations

import logging

from binshift_operator.errors import OperatorError
from binshift_operator.kube import Kube, Object
from binshift_operator.model.names import DataflowKey

log = logging.getLogger(__name__)


def newest_warning(kube: Kube, key: DataflowKey, owner: Object) -> str:
    """The newest warning about an object; empty if there is none, or it cannot be read."""
    conditions = (owner.get("status") or {}).get("conditions") or ()
    messages = [str(each["message"]) for each in conditions if each.get("message")]
    if messages:
        return messages[-1]
    try:
        selector = f"involvedObject.uid={owner['metadata']['uid']},type=Warning"
        events = kube.list("Event", key.namespace, fields=selector)
    except OperatorError as error:
        log.info("events cannot be listed: %s", error)
        return ""
    return str(max(events, key=_last_seen).get("message") or "") if events else ""


def _last_seen(event: Object) -> str:
    """When an event last occurred; the texts have one format, so they can be compared."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
