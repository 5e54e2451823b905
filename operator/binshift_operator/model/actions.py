"""Actions: a closed set of cases. Each can be repeated without harm, and is rejected if its object has changed since it was observed.

`binshift_operator.actor` executes them in order and stops at the first failure; the next reconciliation decides again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from binshift_operator.model.driver_settings import DriverSettings
from binshift_operator.model.names import Child
from binshift_operator.model.status import Explanation


@dataclass(frozen=True, slots=True)
class CreateKeys:
    """Create the Secret with new keys; one that exists is kept."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a child as rendered.

    ``uid``: the required UID; empty: it did not exist, and an object with conflicting values is left alone. ``resource_version``: the
    required version, where the action is only safe for what was observed. ``replicas``: for StatefulSets. ``max_unavailable``: for the
    disruption budget.
    """

    child: Child
    replicas: int | None = None
    uid: str = ""
    resource_version: str = ""
    max_unavailable: int = 1


@dataclass(frozen=True, slots=True)
class TryApply:
    """Apply a child as rendered in a dry run, which changes nothing and fails if the API server would reject it."""

    child: Child
    replicas: int
    uid: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod, if it still has this UID. ``force``: without waiting for its node."""

    name: str
    uid: str
    why: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class Activate:
    """Make the driver in a pod the active one, if the pod still has this UID. ``why``: what it replaces; empty: nothing."""

    name: str
    uid: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Request that the driver finishes the running epoch and stops. ``again``: this was requested before, so it is no change."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class PutTarget:
    """Set the runtime's target."""

    generation: int
    workers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CancelMigration:
    """Cancel a migration that has timed out. ``again``: as for `StopQuery`."""

    id: int
    rollback: bool
    again: bool = False


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Request that the workers of the target share the bins by their present load. ``why``: with the figures."""

    why: str


@dataclass(frozen=True, slots=True)
class PutSettings:
    """Change settings of the running driver."""

    settings: DriverSettings


Action: TypeAlias = (
    CreateKeys
    | Apply
    | TryApply
    | DeletePod
    | Activate
    | StopQuery
    | PutTarget
    | CancelMigration
    | Rebalance
    | PutSettings
)


@dataclass(frozen=True, slots=True)
class Step(Explanation):
    """The actions of a decision, in order, and their explanation."""

    actions: tuple[Action, ...] = ()
