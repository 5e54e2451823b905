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
from binshift_operator.children import Surroundings, attempted, classified, due, fingerprint, tokens
from binshift_operator.children.comparison import NAMELESS
from binshift_operator.children.metadata import Manifest
from binshift_operator.control import Control
from binshift_operator.errors import Forbidden, OperatorError, TimedOut, Unreachable
from binshift_operator.inputs import with_inputs
from binshift_operator.kube import Kube, Object
from binshift_operator.model.names import CONTROL_TOKEN, LABEL_UID, Child, Key
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.world import ChildSeen, ClaimState, Found, Lacking, Pod, RuntimeSeen, World
from binshift_operator.notes import SILENT_SECONDS, Notes, Silence
from binshift_operator.pods import pod_of
from binshift_operator.remembered import Remembered

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
class Seen:
    """What was seen, with what acting upon it takes.

    Attributes:
        dataflow: as it was read, with the hash of the Secrets that it names.
        world: for the decision.
        manifests: of the children as they should be; without the Secret's fingerprint there are no StatefulSets.
        control: the control API; None if there is none to ask.
        token: opens it; None if the Secret is not there.
        whole: whether all of it was read just now; upon anything else nothing may be done.
    """

    dataflow: Dataflow
    world: World
    manifests: Mapping[Child, Manifest] = field(repr=False)
    control: Control | None
    token: str | None = field(default=None, repr=False)
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks.

    Attributes:
        kube: the API server.
        address: where the control API of a dataflow is, by its key and the address of its driver's pod; None while that has none.
        around: see `children.Surroundings`.
        clock: seconds since 1970.
        connect: makes the client of a control API, of its address and token.
        operator: see `Actor`.
    """

    kube: Kube
    address: Callable[[Key, str], str | None]
    around: Surroundings
    clock: Callable[[], float]
    connect: Callable[[str, str], Control] = Control
    operator: str = ""

    def look(self, dataflow: Dataflow, notes: Notes) -> Seen:
        """What is now. ``notes``: of earlier looks at this dataflow; what is seen adds to them.

        Raises:
            OperatorError: the API server does not answer, or refuses to.
        """
        key, now = dataflow.key, self.clock()
        secret = self._child(key, Child.KEYS)
        seen_secret = classified(secret, None, key)
        keys = tokens(secret) if seen_secret.found is Found.CURRENT and secret is not None else None
        keys_hash = None if keys is None else fingerprint(keys)
        if keys is not None:
            dataflow = with_inputs(dataflow, keys, self.kube, notes)
        manifests, unfit = self._manifests(dataflow, keys_hash)
        others = [child for child in Child if child is not Child.KEYS]
        live: dict[Child, Object | None] = {child: self._child(key, child) for child in others}
        children = {Child.KEYS: seen_secret} | {
            child: classified(found, manifests.get(child), key, notes.applied.get(child), now)
            for child, found in live.items()
        }
        if dataflow.service_account is not None:
            children[Child.SERVICE_ACCOUNT] = ChildSeen(
                Found.CURRENT
            )  # the user's own: nothing is made, nothing is taken
        pods, token = self._pods(key, now), keys[CONTROL_TOKEN] if keys is not None else None
        control, runtime, silence = self._asked(key, token, pods, notes, now)
        world = World(
            now=now,
            children=children,
            pods=pods,
            keys_hash=keys_hash,
            runtime=runtime,
            unreachable=silence,
            claim=self._claim(dataflow),
            credentials_missing=self._credentials(dataflow),
            account_missing=self._account(dataflow),
            refusals=notes.refusals,
            invalid=next(iter(unfit.values()), ""),
            unrendered=frozenset(unfit),
            lacking=self._lacking(key, live, children, pods, notes),
            rivals=_rivals(key, children, self.operator),
            operator_version=__version__,
        )
        return Seen(dataflow, world, manifests, control, token)

    def glance(self, dataflow: Dataflow, last: Remembered, notes: Notes) -> Seen:
        """What is now, if nothing but pods and runtime is other than when everything was read ``last``. Errors as `look`."""
        dataflow = replace(dataflow, inputs_hash=last.inputs_hash)
        key, now = dataflow.key, self.clock()
        pods = self._pods(key, now)
        control, runtime, silence = self._asked(key, last.token, pods, notes, now)
        children = {
            child: replace(seen, again=due(seen.found, notes.applied.get(child), now))
            for child, seen in last.world.children.items()
        }
        world = replace(
            last.world,
            now=now,
            children=children,
            pods=pods,
            runtime=runtime,
            unreachable=silence,
            refusals=notes.refusals,
        )
        return Seen(dataflow, world, {}, control, last.token, whole=False)

    def _asked(
        self, key: Key, token: str | None, pods: tuple[Pod, ...], notes: Notes, now: float
    ) -> tuple[Control | None, RuntimeSeen | None, str]:
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
        return control, *_said_by(control, driver, notes, now)

    def _manifests(
        self, dataflow: Dataflow, keys_hash: str | None
    ) -> tuple[Mapping[Child, Manifest], Mapping[Child, str]]:
        """The children as they should be, and of those that cannot be rendered why not."""
        if dataflow.unread:
            return {}, dict.fromkeys(Child, dataflow.unread)
        return attempted(dataflow, keys_hash, self.around)

    def _child(self, key: Key, child: Child) -> Object | None:
        return self.kube.get(KINDS[child], key.namespace, key.child(child))

    def _lacking(
        self,
        key: Key,
        live: Mapping[Child, Object | None],
        children: Mapping[Child, ChildSeen],
        pods: tuple[Pod, ...],
        notes: Notes,
    ) -> Mapping[Child, Lacking]:
        """The StatefulSets whose pods are not all made, which is usual for a moment, with what their controller says."""
        found, now = dict[Child, Lacking](), self.clock()
        for child in (Child.EXECUTORS, Child.DRIVER):
            owner, seen = live[child], children[child]
            count = seen.replicas - sum(pod.is_driver is (child is Child.DRIVER) for pod in pods)
            ours = seen.found not in (Found.ABSENT, Found.FOREIGN, Found.GOING)
            since = notes.lacks(child, ours and count > 0, now)
            if since is not None and owner is not None:
                why = self._said(key, owner) if now - since > ASK_SECONDS else ""
                found[child] = Lacking(count, since, why)
        return found

    def _said(self, key: Key, owner: Object) -> str:
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

    def _pods(self, key: Key, now: float) -> tuple[Pod, ...]:
        found = self.kube.list("Pod", key.namespace, f"{LABEL_UID}={key.uid}")
        return tuple(pod_of(each, now) for each in found)

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


def _rivals(key: Key, children: Mapping[Child, ChildSeen], operator: str) -> str:
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


def _said_by(control: Control, driver: Pod, notes: Notes, now: float) -> tuple[RuntimeSeen | None, str]:
    """What the runtime says, or why it says nothing."""
    silence = notes.silence
    if silence is not None and silence.pod == driver.uid and now < silence.until:
        return None, silence.why
    try:
        return control.dataflow(), ""
    except Forbidden:
        return None, "the driver does not take this token"
    except TimedOut as late:
        notes.silence = Silence(driver.uid, str(late), now + SILENT_SECONDS)
        return None, str(late)
    except Unreachable as silent:
        return None, str(silent)
    except OperatorError as strange:
        return None, f"the driver refuses to answer: {strange}"
