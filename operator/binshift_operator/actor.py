"""Executes actions: the only module that writes to the API server's objects and to the control API.

They are executed in order, up to the first failure; the next reconciliation decides again. Every write carries what it was decided upon
(the UID and, where it matters, the resource version), so that an object that has changed meanwhile is left alone. Secrets are created
and never overwritten.
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
    Activate,
    Apply,
    CancelMigration,
    CreateKeys,
    DeletePod,
    PutSettings,
    PutTarget,
    Rebalance,
    StopQuery,
    TryApply,
)
from binshift_operator.model.names import Child
from binshift_operator.model.specification import Dataflow
from binshift_operator.observe import Observation

TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class ActionFailure:
    """An action that failed, and its error."""

    action: Action
    error: OperatorError


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of some actions: how many were executed, whether any of them changed something, and the first failure."""

    done: int
    changed: bool
    failure: ActionFailure | None = None


@dataclass(frozen=True, slots=True)
class Actor:
    """Executes actions.

    Attributes:
        kube: the API server.
        operator: the name of this operator, for other operators that find what it has applied.
    """

    kube: Kube
    operator: str = ""

    def execute(self, dataflow: Dataflow, observation: Observation, actions: Sequence[Action]) -> ActionResult:
        """Execute actions, up to the first failure."""
        invariant(observation.complete or not actions, "an action is based on a cached observation")
        changed = False
        for number, action in enumerate(actions):
            try:
                self.kube.require_leadership()
                changed |= self._execute(dataflow, observation, action)
            except OperatorError as error:
                return ActionResult(number, changed, ActionFailure(action, error))
        return ActionResult(len(actions), changed)

    def _execute(self, dataflow: Dataflow, observation: Observation, action: Action) -> bool:
        """Execute an action; whether it changed anything, as far as is known."""
        key = dataflow.key
        match action:
            case CreateKeys():
                self._create_keys(dataflow)
            case Apply():
                return self._apply(dataflow, observation, action)
            case TryApply(child, replicas, uid):
                manifest = manifest_for(observation.manifests, Apply(child, replicas, uid), self.operator)
                self.kube.apply(manifest, dry_run=True)
                return False
            case DeletePod(name, uid, _, force):
                self.kube.delete("Pod", key.namespace, name, uid, at_once=force)
            case Activate(_, uid):
                _driver(observation, uid).activate()
            case StopQuery(again):
                _driver(observation).stop()
                return not again
            case PutTarget(generation, workers):
                _driver(observation).put_target(dataflow, generation, workers)
            case CancelMigration(number, rollback, again):
                with contextlib.suppress(NotThere):  # a driver that was restarted does not know it
                    _driver(observation).cancel(number, rollback=rollback)
                return not again
            case PutSettings(settings):
                _driver(observation).put_settings(settings)
            case Rebalance():
                with contextlib.suppress(Refused):  # without it, executors are added if the load still needs them
                    _driver(observation).rebalance()
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
        """Change only the number of pods, if the object is still what was observed."""
        change: Object = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        return self.kube.patch(child.kind, dataflow.key.namespace, dataflow.key.child(child), change)

    def _create_keys(self, dataflow: Dataflow) -> None:
        with contextlib.suppress(Changed):  # one that exists is kept
            self.kube.create(render_secret(dataflow.key, lambda: secrets.token_urlsafe(TOKEN_BYTES)))


def manifest_for(manifests: Mapping[Child, Manifest], action: Apply, operator: str = "") -> Manifest:
    """The manifest to apply for an action: as rendered, for the object that was observed.

    Raises:
        Invalid: it requires the Secret, which does not exist.
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


def _driver(observation: Observation, uid: str = "") -> DriverClient:
    """The client of the active driver, or of that in the pod with this UID."""
    client = observation.clients.get(uid) if uid else observation.driver_client
    if client is None:
        raise Unreachable("no request to the driver is possible: it has no pod, no address or no token")
    return client


def is_permanent(failure: ActionFailure) -> bool:
    """Whether the API server rejects a child as rendered: a retry will not help."""
    refused = isinstance(failure.error, Refused) and not isinstance(failure.error, Changed | NotThere)
    return refused and isinstance(failure.action, Apply | TryApply | CreateKeys)


def describe(action: Action) -> str:
    """The name of an action in messages."""
    match action:
        case CreateKeys():
            return Child.KEYS.value
        case Apply(child) | TryApply(child):
            return child.value
        case DeletePod(name):
            return f"deletion of pod {name}"
        case Activate(name):
            return f"activation of pod {name}"
        case StopQuery():
            return "request to stop"
        case PutTarget():
            return "target for the runtime"
        case CancelMigration(number):
            return f"cancellation of migration {number}"
        case PutSettings():
            return "settings for the runtime"
        case Rebalance():
            return "request to rebalance"
        case _:
            assert_never(action)
