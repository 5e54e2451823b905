"""Which rights the API server grants this process, checked once at its start: a watch without the right to it would end the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from binshift.backoff import backoff_seconds
from binshift_operator.errors import Unreachable
from binshift_operator.kube import Kube

TRIES: Final = 4
"""Questions to an API server that does not answer."""
BACKOFF_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 20.0
WATCHING: Final = ("list", "watch")
"""The verbs that a watch needs."""


def missing_right(
    kube: Kube, kind: str, namespaces: Sequence[str] = (), wait: Callable[[float], None] = time.sleep
) -> str:
    """The first right that this process lacks to watch a kind in these namespaces, or else in the whole cluster; empty if none.

    Raises:
        Unreachable: the API server does not answer, in several tries; ``wait`` is called with the seconds between two.
        Refused: the API server rejects the question.
    """
    for namespace in namespaces or ("",):
        for verb in WATCHING:
            if not _is_granted(kube, verb, kind, namespace, wait):
                return f"the right to {verb} {kind} objects in {namespace or 'the whole cluster'} is missing"
    return ""


def _is_granted(kube: Kube, verb: str, kind: str, namespace: str, wait: Callable[[float], None]) -> bool:
    for failures in range(1, TRIES):
        try:
            return kube.may(verb, kind, namespace)
        except Unreachable:
            wait(backoff_seconds(failures, BACKOFF_SECONDS, BACKOFF_SECONDS_MAX))
    return kube.may(verb, kind, namespace)
