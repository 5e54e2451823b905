"""The resources of a component's main container, as the spec gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from binshift_operator.model.specification import DEFAULTS, Dataflow


def resources(dataflow: Dataflow, component: str) -> Mapping[str, Any]:
    """Requests and limits."""
    given: Mapping[str, Any] = dataflow.section(component, "resources") or DEFAULTS[component]["resources"]
    return given


def limit_or_request(found: Mapping[str, Any], resource: str) -> Any:
    """The limit or, without one, the request; None without either."""
    return (found.get("limits") or {}).get(resource) or (found.get("requests") or {}).get(resource)
