"""The manifests of a dataflow's children as plain dicts, and whether a live object is as they say. Pure.

`rendered` gives all of them but the Secret, whose keys are drawn once by whoever creates it. A StatefulSet's number of
replicas is no part of its manifest: it is decided anew each time. Nothing in here decides when to apply what.
"""

from binshift_operator.children.comparison import compare, is_retry_due, next_attempt, with_applied_hash
from binshift_operator.children.keys import hash_keys, read_keys, render_secret
from binshift_operator.children.rendering import RenderContext, render, render_possible, with_replicas, with_unavailable

__all__ = [
    "RenderContext",
    "compare",
    "hash_keys",
    "is_retry_due",
    "next_attempt",
    "read_keys",
    "render",
    "render_possible",
    "render_secret",
    "with_applied_hash",
    "with_replicas",
    "with_unavailable",
]
