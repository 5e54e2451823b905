"""Renders all children of a dataflow, or raises the first error."""

from __future__ import annotations

from binshift_operator.children import RenderContext, render
from binshift_operator.children.metadata import Manifest
from binshift_operator.model.names import Child
from binshift_operator.model.specification import Dataflow


def render_all(dataflow: Dataflow, keys_hash: str | None, context: RenderContext) -> dict[Child, Manifest]:
    """The manifests by child."""
    manifests, errors = render(dataflow, keys_hash, context)
    for error in errors.values():
        raise error
    return dict(manifests)
