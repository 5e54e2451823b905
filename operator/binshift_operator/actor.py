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

from binshift.invariants import invariant
from binshift_operator.children import render_secret, with_applied_hash, with_replicas, with_unavailable
from binshift_operator.children.metadata import Manifest
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Changed, Invalid, NotThere, OperatorError, Refused, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.model.actions import (
    Action,
    Apply,
    CancelMigration,
    CreateKeys,
    DeletePod,
    PutTarget,
    StopQuery,
    TryApply,
)
from binshift_operator.model.names import Child
from binshift_operator.model.specification import Dataflow
from binshift_operator.observe import KINDS, Observation

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """An action that was not carried out, and why."""

    action: Action
    error: OperatorError


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of some actions: how many were carried out, whether anything is different now, and the first that failed."""

    done: int
    changed: bool
    failure: ActionFailure | None = None


@dataclass(frozen=True, slots=True)
class Actor:
    """Acts upon one API server.

    Attributes:
        kube: the API server.
        operator: how this operator is called, for other operators that find what it has applied.
    """

    kube: Kube
    operator: str = ""

    def execute(self, dataflow: Dataflow, observation: Observation, actions: Sequence[Action]) -> ActionResult:
        """Carry out what can be, up to the first that fails."""
        invariant(observation.complete or not actions, "something is done upon what was not read just now")
        changed = False
        for number, action in enumerate(actions):
            try:
                self.kube.require_leadership()
                changed |= self._do(dataflow, observation, action)
            except OperatorError as error:
                return ActionResult(number, changed, ActionFailure(action, error))
        return ActionResult(len(actions), changed)

    def _do(self, dataflow: Dataflow, observation: Observation, action: Action) -> bool:
        """Whether it changed anything, as far as one can know."""
        key = dataflow.key
        match action:
            case CreateKeys():
                self._create_keys(dataflow)
            case Apply():
                return self._apply(dataflow, observation, action)
            case TryApply(child, replicas, uid):
                self.kube.apply(
                    manifest_for(observation.manifests, Apply(child, replicas, uid), self.operator), dry_run=True
                )
                return False
            case DeletePod(name, uid, _, force):
                self.kube.delete("Pod", key.namespace, name, uid, at_once=force)
            case StopQuery(again):
                _control(observation).stop()
                return not again
            case PutTarget(generation, workers):
                _control(observation).put_target(dataflow, generation, workers)
            case CancelMigration(number, rollback, again):
                _cancel(observation, number, rollback)
                return not again
            case _:
                assert_never(action)
        return True

    def _apply(self, dataflow: Dataflow, observation: Observation, action: Apply) -> bool:
        """Apply a child.

        Known limit: an object that another client creates between the observation and this write, and in which no value conflicts, is
        adopted as the child and deleted with the dataflow. An apply cannot require that no object exists: a UID or a resource version only
        requires one. A POST would leave fields that no later apply removes, because one manager's updates and applies own fields separately.
        Releasing the object afterwards is not safe either: another process of this operator, under the same manager, may have created it.
        """
        before = observation.state.children[action.child].resource_version
        if action.child in observation.state.unrenderable and action.uid and action.replicas is not None:
            after = self._scale(dataflow, action.child, action.replicas, before)
        else:
            after = self.kube.apply(manifest_for(observation.manifests, action, self.operator), force=bool(action.uid))
        return bool(after["metadata"].get("resourceVersion") != before)

    def _scale(self, dataflow: Dataflow, child: Child, replicas: int, version: str) -> Object:
        """Of what cannot be rendered only the number of pods is changed, if it is still what was observed."""
        change: Object = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        return self.kube.patch(KINDS[child], dataflow.key.namespace, dataflow.key.child(child), change)

    def _create_keys(self, dataflow: Dataflow) -> None:
        with contextlib.suppress(Changed):  # there is one by now: it is kept
            self.kube.create(render_secret(dataflow.key, lambda: secrets.token_urlsafe(TOKEN_BYTES)))


def manifest_for(manifests: Mapping[Child, Manifest], action: Apply, operator: str = "") -> Manifest:
    """What is sent for an action: as rendered, for the object that was observed.

    Raises:
        Invalid: it needs the Secret, which is not there.
    """
    if action.child not in manifests:
        raise Invalid(f"{action.child.value} cannot be rendered without the Secret")
    wanted = with_applied_hash(manifests[action.child], operator)
    if action.replicas is not None:
        wanted = with_replicas(wanted, action.replicas)
    if action.child is Child.DISRUPTION_BUDGET:
        wanted = with_unavailable(wanted, action.max_unavailable)
    known = {"uid": action.uid, "resourceVersion": action.resource_version}
    return {**wanted, "metadata": {**wanted["metadata"], **{name: value for name, value in known.items() if value}}}


def _control(observation: Observation) -> DriverClient:
    if observation.driver_client is None:
        raise Unreachable("the driver cannot be asked: it has no pod, no address or no token")
    return observation.driver_client


def _cancel(observation: Observation, number: int, rollback: bool) -> None:
    with contextlib.suppress(NotThere):  # a driver that started anew does not know it
        _control(observation).cancel(number, rollback=rollback)


def is_permanent(failure: ActionFailure) -> bool:
    """Whether the API server does not take a child as it is: trying again will not help."""
    refused = isinstance(failure.error, Refused) and not isinstance(failure.error, Changed | NotThere)
    return refused and isinstance(failure.action, Apply | TryApply | CreateKeys)


def describe(action: Action) -> str:
    """What was to be done, for people."""
    match action:
        case CreateKeys():
            return Child.KEYS.value
        case Apply(child) | TryApply(child):
            return child.value
        case DeletePod(name):
            return f"deletion of pod {name}"
        case StopQuery():
            return "request to stop"
        case PutTarget():
            return "target for the runtime"
        case CancelMigration(number):
            return f"cancellation of migration {number}"
        case _:
            assert_never(action)
