"""Carries out what was decided: the only place that writes to the API server's objects and to the control API.

In order, up to the first that fails; the next look decides anew. Every write says what it was decided upon: the UID, and where
it matters the resource version, so that what has changed meanwhile is left alone. Secrets are created and never written over.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from binshift_operator.children import keys_secret, stamped, with_replicas
from binshift_operator.children.metadata import Manifest
from binshift_operator.control import Control
from binshift_operator.errors import Changed, Invalid, NotThere, OperatorError, Refused, Unreachable
from binshift_operator.kube import Kube
from binshift_operator.model.actions import (
    Action,
    Apply,
    CancelMigration,
    CreateKeys,
    DeletePod,
    PutTarget,
    StopQuery,
)
from binshift_operator.model.names import Child
from binshift_operator.model.specification import Dataflow
from binshift_operator.observe import Seen

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Failed:
    """An action that was not carried out, and why."""

    action: Action
    error: OperatorError


@dataclass(frozen=True, slots=True)
class Actor:
    """Acts upon one API server."""

    kube: Kube

    def carry_out(self, dataflow: Dataflow, seen: Seen, actions: Sequence[Action]) -> tuple[int, Failed | None]:
        """How many were carried out, and the first that was not."""
        for number, action in enumerate(actions):
            try:
                self._do(dataflow, seen, action)
            except OperatorError as error:
                return number, Failed(action, error)
        return len(actions), None

    def _do(self, dataflow: Dataflow, seen: Seen, action: Action) -> None:
        key = dataflow.key
        match action:
            case CreateKeys():
                self._create_keys(dataflow)
            case Apply():
                self.kube.apply(manifest(seen.manifests, action), force=bool(action.uid))
            case DeletePod(name, uid, _, force):
                self.kube.delete("Pod", key.namespace, name, uid, at_once=force)
            case StopQuery():
                _control(seen).stop()
            case PutTarget(generation, workers):
                _control(seen).put_target(dataflow, generation, workers)
            case CancelMigration(number, rollback):
                _cancel(seen, number, rollback)
            case _:
                assert_never(action)

    def _create_keys(self, dataflow: Dataflow) -> None:
        with contextlib.suppress(Changed):  # there is one by now: it is kept
            self.kube.create(keys_secret(dataflow.key, lambda: secrets.token_urlsafe(TOKEN_BYTES)))


def manifest(manifests: Mapping[Child, Manifest], action: Apply) -> Manifest:
    """What is sent for an action: as rendered, for the object that was seen.

    Raises:
        Invalid: it needs the Secret, which is not there.
    """
    if action.child not in manifests:
        raise Invalid(f"{action.child.value} cannot be rendered without the Secret")
    wanted = stamped(manifests[action.child])
    if action.replicas is not None:
        wanted = with_replicas(wanted, action.replicas)
    known = {"uid": action.uid, "resourceVersion": action.resource_version}
    return {**wanted, "metadata": {**wanted["metadata"], **{name: value for name, value in known.items() if value}}}


def _control(seen: Seen) -> Control:
    if seen.control is None:
        raise Unreachable("there is no token to ask the driver with")
    return seen.control


def _cancel(seen: Seen, number: int, rollback: bool) -> None:
    with contextlib.suppress(NotThere):  # a driver that started anew does not know it
        _control(seen).cancel(number, rollback=rollback)


def refusal(failed: Failed) -> tuple[Child, str] | None:
    """What a person should know of a failure: the API server does not take a child as it is."""
    told = isinstance(failed.error, Refused) and not isinstance(failed.error, Changed | NotThere)
    if isinstance(failed.action, Apply) and told:
        return failed.action.child, str(failed.error)
    if isinstance(failed.action, CreateKeys) and told:
        return Child.KEYS, str(failed.error)
    return None
