"""Compares a live object with the rendered manifest: whether it is ours, and as rendered.

The API server adds defaults, so only rendered fields are compared; fields that are no longer rendered are detected by a hash of the whole
manifest, in an annotation of the object (never of pods, as this would restart them). The API server also omits empty fields, as Go does:
an empty text, false, 0 and null equal a missing field.

Some differences cannot be removed: a webhook changes what is applied, or another controller overwrites it. Such a child is *contested*: it
counts as applied, and is applied again at growing intervals. The same holds for a child that another binshift operator overwrites, which
is recognised by its hash and the name in its annotations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from binshift.backoff import backoff_seconds
from binshift_operator.children.metadata import Manifest
from binshift_operator.model.apply_attempt import ApplyAttempt
from binshift_operator.model.names import GROUP, KIND, Child, DataflowKey
from binshift_operator.model.observed import ChildState, ObservedChild
from binshift_operator.model.quantities import quantity

ANNOTATION_APPLIED = f"{GROUP}/applied-hash"
ANNOTATION_APPLIED_BY = f"{GROUP}/applied-by"
"""The operator that applied it; never compared, so a new process of the operator applies nothing again."""
NAMELESS = "an unnamed operator"
RIVALLED_MAX: Final = 3
"""How many applications of another operator are overwritten at once."""
ANNOTATION_RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
"""Written into a template by `kubectl rollout restart`."""
QUANTITIES = ("requests", "limits", "sizeLimit", "storage")
NAMED_BY: Final = ("mountPath", "name")
"""The key of the items of a list: the first field that all of them have; otherwise their position."""
AGAIN_SECONDS_MAX: Final = 300.0
"""A contested child is applied again after 2, 4, 8, ... seconds, up to this maximum."""
RIVAL_SECONDS: Final = 60.0
"""A child counts as no longer overwritten after the other operator's interval (about the same as ours) and this time."""
FORGET_SECONDS: Final = 900.0
"""A child that differs after this time has been changed independently of the last application."""


def applied_hash(manifest: Mapping[str, Any]) -> str:
    """A short hash of a manifest as rendered."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def with_applied_hash(manifest: Manifest, operator: str = "") -> Manifest:
    """The manifest with annotations: its hash, and the operator that applies it."""
    metadata = dict(manifest["metadata"])
    stamps = {ANNOTATION_APPLIED: applied_hash(manifest)} | ({ANNOTATION_APPLIED_BY: operator} if operator else {})
    metadata["annotations"] = {**metadata.get("annotations", {}), **stamps}
    return {**manifest, "metadata": metadata}


def compare(
    live: Mapping[str, Any] | None,
    manifest: Manifest | None,
    key: DataflowKey,
    attempt: ApplyAttempt | None = None,
    now: float = 0.0,
) -> ObservedChild:
    """The state of a child; without a manifest (a Secret, or what cannot be rendered), the operator's own is current.

    ``attempt``: its last application; ``now``: by the same clock.
    """
    if live is None:
        return ObservedChild(ChildState.ABSENT)
    meta = live["metadata"]
    owners = meta.get("ownerReferences") or []
    ours = any(owner.get("uid") == key.uid and owner.get("controller") for owner in owners)
    if not ours:
        predecessor = any(owner.get("kind") == KIND and owner.get("name") == key.name for owner in owners)
        # That of an earlier dataflow of this name is being deleted with its owner.
        return ObservedChild(ChildState.DELETING if predecessor else ChildState.FOREIGN, meta.get("uid", ""))
    spec, status = live.get("spec") or {}, live.get("status") or {}
    drift = _Drift(ChildState.CURRENT) if manifest is None else _drift(live, manifest, attempt, now)
    state = ChildState.DELETING if "deletionTimestamp" in meta else drift.state
    return ObservedChild(
        state,
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=int(spec.get("replicas") or 0),
        max_unavailable=most if isinstance(most := spec.get("maxUnavailable"), int) else 0,
        requested_max_unavailable=drift.requested_max_unavailable,
        restarted_at=_annotations(spec.get("template") or {}).get(ANNOTATION_RESTARTED, ""),
        is_generation_observed=int(status.get("observedGeneration") or 0) >= int(meta.get("generation") or 0),
        retry_due=is_retry_due(state, attempt, now),
        overwritten_by=drift.overwritten_by,
        rival=drift.rival,
    )


def is_retry_due(state: ChildState, attempt: ApplyAttempt | None, now: float) -> bool:
    """Whether it is time to apply a contested child again; others are applied as soon as they differ."""
    return state is ChildState.CONTESTED and attempt is not None and now - attempt.at >= _wait(attempt)


class _Drift(NamedTuple):
    """How a child differs from its manifest; the fields of `ObservedChild`."""

    state: ChildState
    requested_max_unavailable: int = 0
    overwritten_by: str = ""
    rival: str = ""


def _drift(live: Mapping[str, Any], manifest: Manifest, attempt: ApplyAttempt | None, now: float) -> _Drift:
    stamp, found = applied_hash(manifest), _annotations(live).get(ANNOTATION_APPLIED, "")
    last = attempt if attempt is not None and attempt.manifest_hash == stamp else None
    recent = last if last is not None and now - last.at < FORGET_SECONDS else None
    requested, writer = 0, ""
    if recent is not None:
        requested = recent.max_unavailable
        writer = "" if found in ("", stamp) else _annotations(live).get(ANNOTATION_APPLIED_BY) or NAMELESS
    rival = "" if last is None else _rival(last, writer, now)
    # The number of a disruption budget is decided, not rendered.
    overwritten = requested != 0 and (live.get("spec") or {}).get("maxUnavailable") != requested
    if is_as_rendered(live, manifest) and not overwritten:
        state = ChildState.CURRENT
    else:
        contested = recent is not None and (found == stamp or rival)
        state = ChildState.CONTESTED if contested else ChildState.DRIFTED
    return _Drift(state, requested, writer, rival)


def _rival(last: ApplyAttempt, writer: str, now: float) -> str:
    """The other operator that keeps overwriting this child; empty once an application has stayed in place for a while."""
    if last.overwritten + bool(writer) <= RIVALLED_MAX:
        return ""
    stays = now - last.at > min(2 * _wait(last), AGAIN_SECONDS_MAX) + RIVAL_SECONDS
    return writer or ("" if stays else last.rival)


def _annotations(found: Mapping[str, Any]) -> Mapping[str, str]:
    return (found.get("metadata") or {}).get("annotations") or {}


def next_attempt(
    seen: ObservedChild, manifest: Manifest, last: ApplyAttempt | None, now: float, max_unavailable: int = 0
) -> ApplyAttempt:
    """The record of an application, of a child in the ``seen`` state; ``max_unavailable``: requested of a disruption budget."""
    stamp = applied_hash(manifest)
    if last is None or last.manifest_hash != stamp or now - last.at >= FORGET_SECONDS:
        return ApplyAttempt(stamp, 1, now, max_unavailable)
    times, rivalled = last.attempts + (seen.state is ChildState.CONTESTED), last.overwritten + bool(seen.overwritten_by)
    return ApplyAttempt(stamp, times, now, max_unavailable, rivalled, seen.overwritten_by or last.rival)


def _wait(attempt: ApplyAttempt) -> float:
    """Seconds between two applications of a contested child."""
    return backoff_seconds(attempt.attempts + 1, 1.0, AGAIN_SECONDS_MAX)


def is_as_rendered(live: Mapping[str, Any], manifest: Manifest) -> bool:
    """Whether an object was applied as rendered, and has not changed since."""
    return _annotations(live).get(ANNOTATION_APPLIED) == applied_hash(manifest) and _within(manifest, live, ())


def _within(wanted: Any, live: Any, path: tuple[str, ...]) -> bool:
    """Whether everything in ``wanted`` is in ``live``; None matches anything."""
    if wanted is None:
        return True
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            _within(each, live[name], (*path, name)) if name in live else _is_empty(each)
            for name, each in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and _list_within(wanted, live, path)
    if wanted == live:
        return True
    return any(part in QUANTITIES for part in path[-2:]) and _same_quantity(wanted, live)


def _is_empty(value: Any) -> bool:
    """Whether the API server may omit a field of this value."""
    return value is None or value in ("", False, {}, [])


def _list_within(wanted: list[Any], live: list[Any], path: tuple[str, ...]) -> bool:
    for name in NAMED_BY:
        if all(isinstance(each, Mapping) and name in each for each in wanted):
            named = {each.get(name): each for each in live if isinstance(each, Mapping)}
            return all(each[name] in named and _within(each, named[each[name]], path) for each in wanted)
    return len(wanted) == len(live) and all(_within(a, b, path) for a, b in zip(wanted, live, strict=True))


def _same_quantity(wanted: Any, live: Any) -> bool:
    try:
        return quantity(wanted) == quantity(live)
    except ValueError:
        return False


def describe_rivals(key: DataflowKey, children: Mapping[Child, ObservedChild], operator: str) -> str:
    """The message about two operators that overwrite each other's children, the same from both; empty if there are none."""
    contested = {child: found.rival for child, found in children.items() if found.rival}
    if not contested:
        return ""
    one, other = sorted((operator or NAMELESS, next(iter(contested.values()))))
    names = ", ".join(f"{child.kind} {key.child(child)}" for child in contested)
    return (
        f"the operators {one} and {other} both serve this dataflow and overwrite each other's {names}: uninstall one of them, or have "
        "them serve different namespaces (watchNamespaces) or dataflows (watchLabelSelector)"
    )
