"""Whether a node is about to go, by its cordon and its taints, and which pods leave it. Pure.

A node is about to go if it is cordoned, or has one of the taints by which autoscalers announce a removal. Other taints are none of this:
nodes that are lost or shut down take their pods with them, and `PreferNoSchedule` lets new pods in.

A pod that tolerates the taints stays: if it were replaced, the scheduler could put it there again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


Taints: TypeAlias = tuple[Taint, ...]
CORDON: Final = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
"""Kubernetes gives it to a cordoned node a moment after the cordon."""
ANNOUNCING: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",  # before Karpenter 1.0
    }
)
"""The keys of taints by which autoscalers announce that they remove a node."""
NO_NEW_PODS: Final = ("NoSchedule", "NoExecute")


def going_taints(spec: Mapping[str, Any]) -> Taints:
    """The taints by which the node of this spec is about to go, its cordon included; empty if it stays.

    >>> [each.key for each in going_taints({"unschedulable": True})]
    ['node.kubernetes.io/unschedulable']
    >>> going_taints({"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]})
    ()
    """
    given = (
        Taint(str(each.get("key")), str(each.get("effect")), str(each.get("value") or ""))
        for each in spec.get("taints") or ()
    )
    announced = {each for each in given if each.key in ANNOUNCING and each.effect in NO_NEW_PODS}
    return tuple(sorted(announced | ({CORDON} if spec.get("unschedulable") else set())))


def reason_to_leave(taints: Taints, tolerations: Iterable[Mapping[str, Any]]) -> str:
    """Why a pod with these tolerations leaves a node with these taints; empty if it stays.

    >>> reason_to_leave((CORDON,), [])
    'cordoned'
    >>> reason_to_leave((CORDON,), [{"operator": "Exists"}])
    ''
    """
    given = tuple(tolerations)
    left = (taint for taint in taints if not any(_is_tolerated(taint, each) for each in given))
    return next(("cordoned" if taint == CORDON else f"taint {taint.key}" for taint in left), "")


def _is_tolerated(taint: Taint, toleration: Mapping[str, Any]) -> bool:
    """Whether a toleration matches a taint, as the scheduler sees it."""
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    any_value = toleration.get("operator") == "Exists"
    matches = key == taint.key or (not key and any_value)
    return matches and effect in ("", taint.effect) and (any_value or (toleration.get("value") or "") == taint.value)
