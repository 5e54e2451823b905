"""The manifests of a dataflow's children as plain dicts, and the comparison of live objects with them. Pure.

`render` returns all of them except the Secret, whose keys are drawn once at its creation. The replicas of a StatefulSet are not part of
its manifest: they are decided each time. Nothing here decides when to apply a manifest.
"""

from binshift_operator.children.comparison import compare, is_retry_due, next_attempt, with_applied_hash
from binshift_operator.children.metadata import hash_keys, read_keys, render_secret
from binshift_operator.children.rendering import (
    RenderContext,
    left_alone,
    render,
    unused,
    with_replicas,
    with_unavailable,
)

__all__ = [
    "RenderContext",
    "compare",
    "hash_keys",
    "is_retry_due",
    "left_alone",
    "next_attempt",
    "read_keys",
    "render",
    "render_secret",
    "unused",
    "with_applied_hash",
    "with_replicas",
    "with_unavailable",
]
