"""Looks at everything there is of one dataflow: the only place that reads. It decides nothing and changes nothing.

The order matters: children before pods before the runtime, so that what is said of bins is never older than what is known
of processes. A control API that does not answer is an observation; an API server that does not is an error, and ends the look.
`look` reads everything, `glance` what changes often, of a dataflow that was at rest when everything was read (`remembered`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from binshift import __version__
from binshift_operator.children import RenderContext, compare, hash_keys, is_retry_due, read_keys, render_possible
from binshift_operator.children.comparison import NAMELESS
from binshift_operator.children.metadata import Manifest
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Forbidden, OperatorError, TimedOut, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.memo import CONTROL_BACKOFF_SECONDS, CachedObservation, ControlBackoff, Memo
from binshift_operator.model.names import CONTROL_TOKEN, LABEL_UID, Child, DataflowKey
from binshift_operator.model.observed import (
    ChildState,
    ClaimState,
    MissingPods,
    ObservedChild,
    ObservedRuntime,
    ObservedState,
    Pod,
)
from binshift_operator.model.specification import Dataflow
from binshift_operator.pod_state import parse_pod
from binshift_operator.referenced_secrets import with_secrets_hash

log = logging.getLogger(__name__)

KINDS: Mapping[Child, str] = {
    Child.SERVICE_ACCOUNT: "ServiceAccount",
    Child.KEYS: "Secret",
    Child.SPARK_CONF: "ConfigMap",
    Child.NETWORK_POLICY: "NetworkPolicy",
    Child.DRIVER_SERVICE: "Service",
    Child.EXECUTOR_SERVICE: "Service",
    Child.DISRUPTION_BUDGET: "PodDisruptionBudget",
    Child.EXECUTORS: "StatefulSet",
    Child.DRIVER: "StatefulSet",
}
"""What a child is to the API server."""

SHARED = "ReadWriteMany"
ASK_SECONDS = 5.0
"""How long a StatefulSet may lack pods before its events are asked for."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen, with what acting upon it takes.

    Attributes:
        dataflow: as it was read, with the hash of the Secrets that it names.
        state: for the decision.
        manifests: of the children as they should be; without the Secret's fingerprint there are no StatefulSets.
        driver_client: the control API; None if there is none to ask.
        token: opens it; None if the Secret is not there.
        complete: whether all of it was read just now; upon anything else nothing may be done.
    """

    dataflow: Dataflow
    state: ObservedState
    manifests: Mapping[Child, Manifest] = field(repr=False)
    driver_client: DriverClient | None
    token: str | None = field(default=None, repr=False)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks.

    Attributes:
        kube: the API server.
        address: where the control API of a dataflow is, by its key and the address of its driver's pod; None while that has none.
        around: see `children.RenderContext`.
        clock: seconds since 1970.
        connect: makes the client of a control API, of its address and token.
        operator: see `Actor`.
    """

    kube: Kube
    address: Callable[[DataflowKey, str], str | None]
    render_context: RenderContext
    clock: Callable[[], float]
    connect: Callable[[str, str], DriverClient] = DriverClient
    operator: str = ""

    def observe(self, dataflow: Dataflow, memo: Memo) -> Observation:
        """What is now. ``notes``: of earlier looks at this dataflow; what is seen adds to them.

        Raises:
            OperatorError: the API server does not answer, or refuses to.
        """
        key, now = dataflow.key, self.clock()
        secret = self._child(key, Child.KEYS)
        seen_secret = compare(secret, None, key)
        keys = read_keys(secret) if seen_secret.state is ChildState.CURRENT and secret is not None else None
        keys_hash = None if keys is None else hash_keys(keys)
        if keys is not None:
            dataflow = with_secrets_hash(dataflow, keys, self.kube, memo)
        manifests, unfit = self._manifests(dataflow, keys_hash)
        others = [child for child in Child if child is not Child.KEYS]
        live: dict[Child, Object | None] = {child: self._child(key, child) for child in others}
        children = {Child.KEYS: seen_secret} | {
            child: compare(found, manifests.get(child), key, memo.applied.get(child), now)
            for child, found in live.items()
        }
        if dataflow.service_account is not None:
            children[Child.SERVICE_ACCOUNT] = ObservedChild(
                ChildState.CURRENT
            )  # the user's own: nothing is made, nothing is taken
        pods, token = self._pods(key, now), keys[CONTROL_TOKEN] if keys is not None else None
        control, runtime, silence = self._asked(key, token, pods, memo, now)
        observed = ObservedState(
            now=now,
            children=children,
            pods=pods,
            keys_hash=keys_hash,
            runtime=runtime,
            unreachable=silence,
            claim=self._claim(dataflow),
            credentials_missing=self._credentials(dataflow),
            account_missing=self._account(dataflow),
            refusals=memo.refusals,
            render_error=next(iter(unfit.values()), ""),
            unrenderable=frozenset(unfit),
            missing_pods=self._missing_pods(key, live, children, pods, memo),
            rivals=_rivals(key, children, self.operator),
            operator_version=__version__,
        )
        return Observation(dataflow, observed, manifests, control, token)

    def observe_pods(self, dataflow: Dataflow, last: CachedObservation, memo: Memo) -> Observation:
        """What is now, if nothing but pods and runtime is other than when everything was read ``last``. Errors as `look`."""
        dataflow = replace(dataflow, secrets_hash=last.secrets_hash)
        key, now = dataflow.key, self.clock()
        pods = self._pods(key, now)
        control, runtime, silence = self._asked(key, last.token, pods, memo, now)
        children = {
            child: replace(seen, retry_due=is_retry_due(seen.state, memo.applied.get(child), now))
            for child, seen in last.observed.children.items()
        }
        observed = replace(
            last.observed,
            now=now,
            children=children,
            pods=pods,
            runtime=runtime,
            unreachable=silence,
            refusals=memo.refusals,
        )
        return Observation(dataflow, observed, {}, control, last.token, complete=False)

    def _asked(
        self, key: DataflowKey, token: str | None, pods: tuple[Pod, ...], memo: Memo, now: float
    ) -> tuple[DriverClient | None, ObservedRuntime | None, str]:
        """The control API of the pod that was just listed; what the runtime says, or why it says nothing."""
        if token is None:
            return None, None, "there is no token to ask it with"
        driver = next((pod for pod in pods if pod.is_driver), None)
        if driver is None:
            return None, None, "there is no driver's pod"
        address = self.address(key, driver.ip)
        if address is None:
            return None, None, "its pod has no address yet"
        control = self.connect(address, token)
        return control, *_said_by(control, driver, memo, now)

    def _manifests(
        self, dataflow: Dataflow, keys_hash: str | None
    ) -> tuple[Mapping[Child, Manifest], Mapping[Child, str]]:
        """The children as they should be, and of those that cannot be rendered why not."""
        if dataflow.parse_error:
            return {}, dict.fromkeys(Child, dataflow.parse_error)
        return render_possible(dataflow, keys_hash, self.render_context)

    def _child(self, key: DataflowKey, child: Child) -> Object | None:
        return self.kube.get(KINDS[child], key.namespace, key.child(child))

    def _missing_pods(
        self,
        key: DataflowKey,
        live: Mapping[Child, Object | None],
        children: Mapping[Child, ObservedChild],
        pods: tuple[Pod, ...],
        memo: Memo,
    ) -> Mapping[Child, MissingPods]:
        """The StatefulSets whose pods are not all made, which is usual for a moment, with what their controller says."""
        found, now = dict[Child, MissingPods](), self.clock()
        for child in (Child.EXECUTORS, Child.DRIVER):
            owner, seen = live[child], children[child]
            count = seen.replicas - sum(pod.is_driver is (child is Child.DRIVER) for pod in pods)
            ours = seen.state not in (ChildState.ABSENT, ChildState.FOREIGN, ChildState.DELETING)
            since = memo.track_missing_pods(child, ours and count > 0, now)
            if since is not None and owner is not None:
                why = self._said(key, owner) if now - since > ASK_SECONDS else ""
                found[child] = MissingPods(count, since, why)
        return found

    def _said(self, key: DataflowKey, owner: Object) -> str:
        """The newest warning about an object, in whoever's words; empty if there is none, or it may not be read."""
        conditions = (owner.get("status") or {}).get("conditions") or ()
        told = [str(each["message"]) for each in conditions if each.get("message")]
        if told:
            return told[-1]
        try:
            selected = f"involvedObject.uid={owner['metadata']['uid']},type=Warning"
            events = self.kube.list("Event", key.namespace, fields=selected)
        except OperatorError as error:
            log.info("events cannot be listed: %s", error)
            return ""
        return str(max(events, key=_when).get("message") or "") if events else ""

    def _pods(self, key: DataflowKey, now: float) -> tuple[Pod, ...]:
        found = self.kube.list("Pod", key.namespace, f"{LABEL_UID}={key.uid}")
        return tuple(parse_pod(each, now) for each in found)

    def _claim(self, dataflow: Dataflow) -> ClaimState:
        name = dataflow.checkpoint.claim
        if name is None:
            return ClaimState.FINE
        claim = self.kube.get("PersistentVolumeClaim", dataflow.key.namespace, name)
        if claim is None:
            return ClaimState.ABSENT
        modes = (claim.get("spec") or {}).get("accessModes") or ()
        return ClaimState.FINE if SHARED in modes else ClaimState.NOT_SHARED

    def _credentials(self, dataflow: Dataflow) -> str | None:
        name = dataflow.checkpoint.credentials_secret
        there = name is None or self.kube.get("Secret", dataflow.key.namespace, name) is not None
        return None if there else name

    def _account(self, dataflow: Dataflow) -> str | None:
        name = dataflow.service_account
        there = name is None or self.kube.get("ServiceAccount", dataflow.key.namespace, name) is not None
        return None if there else name


def _rivals(key: DataflowKey, children: Mapping[Child, ObservedChild], operator: str) -> str:
    """Which two operators write over each other's children, in words that both of them find; empty if none do."""
    taken = {child: seen.rival for child, seen in children.items() if seen.rival}
    if not taken:
        return ""
    one, other = sorted((operator or NAMELESS, next(iter(taken.values()))))
    what = ", ".join(f"{KINDS[child]} {key.child(child)}" for child in taken)
    return (
        f"the operators {one} and {other} both serve this dataflow and write over each other's {what}: uninstall one of them, or have "
        "them serve different namespaces (watchNamespaces) or dataflows (watchLabelSelector)"
    )


def _when(event: Object) -> str:
    """When an event was last told of; texts of one format, so that they can be compared."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _said_by(control: DriverClient, driver: Pod, memo: Memo, now: float) -> tuple[ObservedRuntime | None, str]:
    """What the runtime says, or why it says nothing."""
    backoff = memo.control_backoff
    if backoff is not None and backoff.pod_uid == driver.uid and now < backoff.until:
        return None, backoff.error
    try:
        return control.dataflow(), ""
    except Forbidden:
        return None, "the driver does not take this token"
    except TimedOut as late:
        memo.control_backoff = ControlBackoff(driver.uid, str(late), now + CONTROL_BACKOFF_SECONDS)
        return None, str(late)
    except Unreachable as silent:
        return None, str(silent)
    except OperatorError as strange:
        return None, f"the driver refuses to answer: {strange}"
