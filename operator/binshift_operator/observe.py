"""Observes one dataflow: the only module that reads. It decides nothing and changes nothing.

The order matters: children before pods before the runtime, so that what is known of bins is never older than what is known of processes.
A control API that does not answer is an observation; an API server that does not is an error, and ends the reconciliation. `observe`
reads everything; `observe_pods` reads what changes often, of a dataflow that was settled when everything was read (`memo`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from binshift import __version__
from binshift_operator.children import (
    RenderContext,
    compare,
    hash_keys,
    is_retry_due,
    left_alone,
    read_keys,
    render,
    unused,
)
from binshift_operator.children.comparison import describe_rivals
from binshift_operator.children.metadata import Manifest
from binshift_operator.claims import observe_claim
from binshift_operator.driver_access import Address, DriverAccess
from binshift_operator.driver_client import DriverClient
from binshift_operator.driver_reports import Drivers, ask, ask_drivers
from binshift_operator.driver_tls import Access, observe_access
from binshift_operator.kube import Kube, Object
from binshift_operator.memo import CachedObservation, Memo
from binshift_operator.model.drivers import has_standby
from binshift_operator.model.names import LABEL_UID, Child, DataflowKey
from binshift_operator.model.node_taints import Taints
from binshift_operator.model.observed import ChildState, MissingPods, ObservedChild, ObservedState
from binshift_operator.model.pods import Pod
from binshift_operator.model.specification import Dataflow
from binshift_operator.newest_warning import newest_warning
from binshift_operator.pod_state import parse_pod
from binshift_operator.referenced_secrets import with_secrets_hash
from binshift_operator.restoring import with_restore_location

EVENTS_AFTER_SECONDS = 5.0
"""How long pods of a StatefulSet may be missing before its events are listed."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed state, with what acting upon it requires.

    Attributes:
        dataflow: the spec, with the hash of the Secrets that it references.
        state: for the decision.
        manifests: of the children as rendered; without the Secret's fingerprint there are no StatefulSets.
        driver_client: of the control API; None if it has no address or token; ``clients``: of each driver's, by the UID of its pod.
        access: to the control API; None if the Secret with its token does not exist.
        complete: whether everything was read just now; actions require it.
    """

    dataflow: Dataflow
    state: ObservedState
    manifests: Mapping[Child, Manifest] = field(repr=False)
    driver_client: DriverClient | None
    access: Access | None = None
    clients: Mapping[str, DriverClient] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Observer:
    """Observes dataflows.

    Attributes:
        kube, address, connect: see `DriverAccess`.
        render_context: see `children.RenderContext`.
        clock: seconds since 1970.
        operator: see `Actor`; ``going``: the taints by which a node is about to go, by its name.
    """

    kube: Kube
    address: Address
    render_context: RenderContext
    clock: Callable[[], float]
    connect: Callable[..., DriverClient] = DriverClient
    operator: str = ""
    going: Callable[[str], Taints] = lambda node: ()

    def observe(self, dataflow: Dataflow, memo: Memo) -> Observation:
        """Observe everything; ``memo``: of earlier reconciliations, is updated.

        Raises:
            OperatorError: the API server does not answer, or rejects a request.
        """
        key, now = dataflow.key, self.clock()
        secret_state, keys = self._keys(key)
        keys_hash = None if keys is None else hash_keys(keys)
        dataflow = with_secrets_hash(dataflow, keys, self.kube, memo)
        dataflow, restore_problem = with_restore_location(self.kube, dataflow)
        manifests, errors = self._render(dataflow, keys_hash)
        live = {each: self._child(key, each) for each in Child if each not in (Child.KEYS, *unused(dataflow))}
        children = {Child.KEYS: secret_state} | {
            child: compare(found, manifests.get(child), key, memo.applied.get(child), now)
            for child, found in live.items()
        }
        children |= dict.fromkeys(left_alone(dataflow), ObservedChild(ChildState.CURRENT))
        pods = self._pods(key, now)
        certificate_problem, access = observe_access(self.kube, dataflow, keys, pods)
        found = self._drivers(dataflow, access, pods, memo, now)
        claim, claim_kind = observe_claim(self.kube, dataflow)
        state = ObservedState(
            now=now,
            children=children,
            pods=pods,
            keys_hash=keys_hash,
            runtime=found.chosen.runtime,
            unreachable=found.chosen.error,
            reports=found.reports,
            claim=claim,
            claim_kind=claim_kind,
            credentials_missing=self._missing("Secret", key, dataflow.checkpoint.credentials_secret),
            account_missing=self._missing("ServiceAccount", key, dataflow.service_account),
            certificate_problem=certificate_problem,
            restore_problem=restore_problem,
            refusals=memo.refusals,
            render_error=next(iter(errors.values()), ""),
            unrenderable=frozenset(errors),
            missing_pods=self._missing_pods(key, live, children, pods, memo),
            rivals=describe_rivals(key, children, self.operator),
            operator_version=__version__,
            operator_namespace=self.render_context.namespace,
        )
        return Observation(dataflow, state, manifests, found.client, access, found.clients)

    def observe_pods(self, dataflow: Dataflow, last: CachedObservation, memo: Memo) -> Observation:
        """Observe the pods and the runtime; everything else is as last observed.

        Raises:
            OperatorError: the API server does not answer, or rejects a request.
        """
        now = self.clock()
        dataflow = replace(dataflow, secrets_hash=last.secrets_hash)
        pods = self._pods(dataflow.key, now)
        found = self._drivers(dataflow, last.access, pods, memo, now)
        children = {
            child: replace(found, retry_due=is_retry_due(found.state, memo.applied.get(child), now))
            for child, found in last.observed.children.items()
        }
        state = replace(last.observed, now=now, children=children, pods=pods, refusals=memo.refusals)
        chosen = found.chosen
        state = replace(state, runtime=chosen.runtime, unreachable=chosen.error, reports=found.reports)
        return Observation(dataflow, state, {}, found.client, last.access, found.clients, complete=False)

    def observe_runtime(self, last: Observation, memo: Memo) -> Observation:
        """Observe the runtime alone, at the address of pods that were observed a moment ago."""
        now, driver = self.clock(), last.state.driver
        if last.driver_client is None or driver is None:
            return last
        reports = last.state.reports
        found = ask(last.driver_client, driver, memo, now, several=bool(reports))
        reports = {**reports, driver.uid: found} if reports else reports
        state = replace(last.state, now=now, runtime=found.runtime, unreachable=found.error, reports=reports)
        return replace(last, state=state, complete=False)

    def _drivers(
        self, dataflow: Dataflow, access: Access | None, pods: tuple[Pod, ...], memo: Memo, now: float
    ) -> Drivers:
        drivers = tuple(pod for pod in pods if pod.is_driver)
        several = has_standby(dataflow) or len(drivers) > 1
        caller = DriverAccess(self.kube, self.address, self.connect)
        return ask_drivers(caller, dataflow.key, access, drivers, memo, now, several=several)

    def _render(
        self, dataflow: Dataflow, keys_hash: str | None
    ) -> tuple[Mapping[Child, Manifest], Mapping[Child, str]]:
        """The manifests of the children, and the errors of children that cannot be rendered."""
        if dataflow.parse_error:
            return {}, dict.fromkeys(Child, dataflow.parse_error)
        manifests, errors = render(dataflow, keys_hash, self.render_context)
        return manifests, {child: str(error) for child, error in errors.items()}

    def _keys(self, key: DataflowKey) -> tuple[ObservedChild, Mapping[str, str] | None]:
        """The dataflow's Secret, and its keys; None if it does not exist or lacks one."""
        secret = self._child(key, Child.KEYS)
        found = compare(secret, None, key)
        return found, read_keys(secret) if secret is not None and found.state is ChildState.CURRENT else None

    def _child(self, key: DataflowKey, child: Child) -> Object | None:
        return self.kube.get(child.kind, key.namespace, key.child(child))

    def _missing(self, kind: str, key: DataflowKey, name: str | None) -> str | None:
        """The name of an object that does not exist; None if it does, or none is named."""
        return None if name is None or self.kube.get(kind, key.namespace, name) is not None else name

    def _missing_pods(
        self,
        key: DataflowKey,
        live: Mapping[Child, Object | None],
        children: Mapping[Child, ObservedChild],
        pods: tuple[Pod, ...],
        memo: Memo,
    ) -> Mapping[Child, MissingPods]:
        """The StatefulSets some of whose pods are not created (which is normal for a moment), with their controller's error."""
        found, now = dict[Child, MissingPods](), self.clock()
        for child in (Child.EXECUTORS, Child.DRIVER):
            owner, current = live[child], children[child]
            count = current.replicas - sum(pod.is_driver is (child is Child.DRIVER) for pod in pods)
            ours = current.state not in (ChildState.ABSENT, ChildState.FOREIGN, ChildState.DELETING)
            since = memo.track_missing_pods(child, ours and count > 0, now)
            if since is not None and owner is not None:
                error = newest_warning(self.kube, key, owner) if now - since > EVENTS_AFTER_SECONDS else ""
                found[child] = MissingPods(count, since, error)
        return found

    def _pods(self, key: DataflowKey, now: float) -> tuple[Pod, ...]:
        found = self.kube.list("Pod", key.namespace, f"{LABEL_UID}={key.uid}")
        return tuple(parse_pod(each, now, self.going) for each in found)
