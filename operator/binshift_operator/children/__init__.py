"""The manifests of a dataflow's children as plain dicts, and whether a live object is as they say. Pure.

`rendered` gives all of them but the Secret, whose keys are drawn once by whoever creates it. A StatefulSet's number of
replicas is no part of its manifest: it is decided anew each time. Nothing in here decides when to apply what.
"""

from binshift_operator.children.comparison import classified, due, next_attempt, stamped
from binshift_operator.children.keys import fingerprint, keys_secret, tokens
from binshift_operator.children.rendering import RenderContext, attempted, rendered, with_replicas, with_unavailable

__all__ = [
    "RenderContext",
    "attempted",
    "classified",
    "due",
    "fingerprint",
    "keys_secret",
    "next_attempt",
    "rendered",
    "stamped",
    "tokens",
    "with_replicas",
    "with_unavailable",
]
