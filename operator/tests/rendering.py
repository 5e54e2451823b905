"""Renders all children of a dataflow, or raises the first error."""

from __future__ import annotations

from typing import Any

from binshift_operator.children import RenderContext, render
from binshift_operator.children.metadata import Manifest
from binshift_operator.model.names import Child
from binshift_operator.model.specification import Dataflow

WITH_STANDBY: dict[str, Any] = {"spec.driver": {"standby": True}}
"""The change of a dataflow that gives it a standby driver."""


def render_all(dataflow: Dataflow, keys_hash: str | None, context: RenderContext) -> dict[Child, Manifest]:
    """The manifests by child."""
    manifests, errors = render(dataflow, keys_hash, context)
    for error in errors.values():
        raise error
    return dict(manifests)
