"""Whether a live object is ours, and as rendered.

The API server adds defaults, so only what is rendered is compared; what is rendered no longer is told by a hash of the whole
manifest, kept as an annotation of the object (never of pods: it restarts nothing). It also leaves out what is empty, as Go does:
an empty text, false, 0 and nothing are the same where the live object lacks the field.

A difference may also be nobody's to remove: a webhook changes what is applied, another controller writes it over. Such a child
is *kept* so: it counts as being in place, and is applied again more and more rarely. The same holds for a child that another operator
of binshift applies over ours: its hash, and the name that it leaves beside it, tell it from everything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from binshift.backoff import backoff_seconds
from binshift_operator.children.metadata import Manifest
from binshift_operator.model.names import GROUP, KIND, DataflowKey
from binshift_operator.model.observed import ApplyAttempt, ChildState, ObservedChild
from binshift_operator.model.quantities import quantity

ANNOTATION_APPLIED = f"{GROUP}/applied-hash"
ANNOTATION_APPLIED_BY = f"{GROUP}/applied-by"
"""Which operator applied it; compared with nothing, so that a new process of the operator applies nothing again."""
NAMELESS = "an operator that leaves no name"
RIVALLED_MAX: Final = 3
"""So often another operator's application is written over at once."""
ANNOTATION_RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
"""What `kubectl rollout restart` writes into a template."""
QUANTITIES = ("requests", "limits", "sizeLimit", "storage")
NAMED_BY: Final = ("mountPath", "name")
"""What tells the items of a list from each other, the first that all of them have; others are told by their places."""
AGAIN_SECONDS_MAX: Final = 300.0
"""A kept child is applied again after 2, 4, 8, ... seconds, and at last after so many."""
RIVAL_SECONDS: Final = 60.0
"""Beyond the other operator's wait, which is about one's own, a child that it wrote over must stay in place for so long."""
FORGET_SECONDS: Final = 900.0
"""Who differs again after so long has been changed anew."""


def applied_hash(manifest: Mapping[str, Any]) -> str:
    """A short hash of a manifest as rendered."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:16]


def with_applied_hash(manifest: Manifest, operator: str = "") -> Manifest:
    """The manifest with its own hash, and with who applies it."""
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
    """What a child is like; without a manifest (a Secret, or what cannot be rendered), one that is ours is as it should be.

    ``attempt``: how it was applied lately, and ``now`` in the same clock.
    """
    if live is None:
        return ObservedChild(ChildState.ABSENT)
    meta = live["metadata"]
    owners = meta.get("ownerReferences") or []
    ours = any(owner.get("uid") == key.uid and owner.get("controller") for owner in owners)
    if not ours:
        predecessor = any(owner.get("kind") == KIND and owner.get("name") == key.name for owner in owners)
        # Of an earlier dataflow of this name: it is on its way out, with its owner.
        return ObservedChild(ChildState.DELETING if predecessor else ChildState.FOREIGN, meta.get("uid", ""))
    spec, status = live.get("spec") or {}, live.get("status") or {}
    found = ChildState.DELETING if "deletionTimestamp" in meta else _found(live, manifest, attempt, now)
    return ObservedChild(
        found,
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        replicas=int(spec.get("replicas") or 0),
        max_unavailable=most if isinstance(most := spec.get("maxUnavailable"), int) else 0,
        requested_max_unavailable=_requested(manifest, attempt, now),
        restarted_at=_annotations(spec.get("template") or {}).get(ANNOTATION_RESTARTED, ""),
        is_generation_observed=int(status.get("observedGeneration") or 0) >= int(meta.get("generation") or 0),
        retry_due=is_retry_due(found, attempt, now),
        overwritten_by=_written_by(live, manifest, attempt, now),
        rival=_rival(live, manifest, attempt, now),
    )


def _annotations(found: Mapping[str, Any]) -> Mapping[str, str]:
    return (found.get("metadata") or {}).get("annotations") or {}


def is_retry_due(found: ChildState, attempt: ApplyAttempt | None, now: float) -> bool:
    """Whether it is time to apply a kept child once more; others are applied as soon as they are found to differ."""
    return found is ChildState.CONTESTED and attempt is not None and now - attempt.at >= _wait(attempt)


def _found(live: Mapping[str, Any], manifest: Manifest | None, attempt: ApplyAttempt | None, now: float) -> ChildState:
    if manifest is None or (is_as_rendered(live, manifest) and not _is_overwritten(live, manifest, attempt, now)):
        return ChildState.CURRENT
    if not _lately(manifest, attempt, now):
        return ChildState.DRIFTED
    ours = _noted(live) == applied_hash(manifest)
    return ChildState.CONTESTED if ours or _rival(live, manifest, attempt, now) else ChildState.DRIFTED


def _is_overwritten(live: Mapping[str, Any], manifest: Manifest, attempt: ApplyAttempt | None, now: float) -> bool:
    """Whether a disruption budget differs from the number requested recently; that number is decided, not rendered."""
    requested = _requested(manifest, attempt, now)
    return requested != 0 and (live.get("spec") or {}).get("maxUnavailable") != requested


def _requested(manifest: Manifest | None, attempt: ApplyAttempt | None, now: float) -> int:
    """The number recently requested of a disruption budget; 0 if none was."""
    if manifest is None or attempt is None or not _lately(manifest, attempt, now):
        return 0
    return attempt.max_unavailable


def _lately(manifest: Manifest, attempt: ApplyAttempt | None, now: float) -> bool:
    """Whether this very manifest was applied not long ago."""
    return attempt is not None and attempt.manifest_hash == applied_hash(manifest) and now - attempt.at < FORGET_SECONDS


def _written_by(live: Mapping[str, Any], manifest: Manifest | None, attempt: ApplyAttempt | None, now: float) -> str:
    """Which other operator has applied something else since this one applied the manifest; empty if none has."""
    if manifest is None or not _lately(manifest, attempt, now) or _noted(live) in ("", applied_hash(manifest)):
        return ""
    return (live["metadata"].get("annotations") or {}).get(ANNOTATION_APPLIED_BY) or NAMELESS


def _rival(live: Mapping[str, Any], manifest: Manifest | None, attempt: ApplyAttempt | None, now: float) -> str:
    """Which other operator writes this child over time and again; until what was applied has stayed in place for a while."""
    writer = _written_by(live, manifest, attempt, now)
    if attempt is None or manifest is None or attempt.manifest_hash != applied_hash(manifest):
        return ""
    if attempt.overwritten + bool(writer) <= RIVALLED_MAX:
        return ""
    stays = now - attempt.at > min(2 * _wait(attempt), AGAIN_SECONDS_MAX) + RIVAL_SECONDS
    return writer or ("" if stays else attempt.rival)


def next_attempt(
    seen: ObservedChild, manifest: Manifest, last: ApplyAttempt | None, now: float, max_unavailable: int = 0
) -> ApplyAttempt:
    """What to remember after applying a child that was ``seen`` so; ``max_unavailable``: requested of a disruption budget."""
    stamp = applied_hash(manifest)
    if last is None or last.manifest_hash != stamp or now - last.at >= FORGET_SECONDS:
        return ApplyAttempt(stamp, 1, now, max_unavailable)
    times, rivalled = last.attempts + (seen.state is ChildState.CONTESTED), last.overwritten + bool(seen.overwritten_by)
    return ApplyAttempt(stamp, times, now, max_unavailable, rivalled, seen.overwritten_by or last.rival)


def _wait(attempt: ApplyAttempt) -> float:
    """Seconds from one application of a kept child to the next."""
    return backoff_seconds(attempt.attempts + 1, 1.0, AGAIN_SECONDS_MAX)


def is_as_rendered(live: Mapping[str, Any], manifest: Manifest) -> bool:
    """Whether an object was applied as rendered, and has stayed so."""
    return _noted(live) == applied_hash(manifest) and _within(manifest, live, ())


def _noted(live: Mapping[str, Any]) -> str:
    noted: str = (live["metadata"].get("annotations") or {}).get(ANNOTATION_APPLIED, "")
    return noted


def _within(wanted: Any, live: Any, path: tuple[str, ...]) -> bool:
    """Whether everything in ``wanted`` is in ``live``; who asks for nothing (None) is content with anything."""
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
    """Whether the API server may leave out a field of this value."""
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
