"""What can be done: a closed set of cases. Each may be done again without harm, and is refused if what it is about has changed.

`binshift_operator.actor` carries them out in order and stops at the first that fails; the next look decides anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from binshift_operator.model.names import Child


@dataclass(frozen=True, slots=True)
class CreateKeys:
    """Create the Secret with fresh keys; one that is there by now is kept."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Put a child in place as rendered.

    ``uid``: the one it must have; empty: it did not exist, and an object with conflicting values is left alone. ``resource_version``: the one
    it must have, where the action is only safe for what was observed. ``replicas``: for StatefulSets. ``max_unavailable``: for the disruption
    budget.
    """

    child: Child
    replicas: int | None = None
    uid: str = ""
    resource_version: str = ""
    max_unavailable: int = 1


@dataclass(frozen=True, slots=True)
class TryApply:
    """Ask the API server whether it would take a child as rendered; nothing is changed. Fails if it would not."""

    child: Child
    replicas: int
    uid: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod, if it is still the one of this UID. ``force``: without waiting for its node, which does not answer."""

    name: str
    uid: str
    why: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Ask the driver to finish the running epoch and stop. ``again``: it was asked before, so nothing is new once it is done."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class PutTarget:
    """Hand the runtime a target."""

    generation: int
    workers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CancelMigration:
    """Cancel a migration that took too long. ``again``: as for `StopQuery`."""

    id: int
    rollback: bool
    again: bool = False


Action: TypeAlias = CreateKeys | Apply | TryApply | DeletePod | StopQuery | PutTarget | CancelMigration
