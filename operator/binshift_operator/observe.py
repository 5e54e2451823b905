"""Looks at everything there is of one dataflow: the only place that reads. It decides nothing and changes nothing.

The order matters: children before pods before the runtime, so that what is said of bins is never older than what is known
of processes. A control API that does not answer is an observation; an API server that does not is an error, and ends the look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from binshift_operator.children import Surroundings, classified, fingerprint, rendered, tokens
from binshift_operator.children.metadata import Manifest
from binshift_operator.control import Control
from binshift_operator.errors import Forbidden, OperatorError, Unreachable
from binshift_operator.kube import Kube, Object
from binshift_operator.model.names import CONTROL_TOKEN, LABEL_UID, Child, Key
from binshift_operator.model.specification import Dataflow
from binshift_operator.model.world import ChildSeen, ClaimState, Found, Pod, RuntimeSeen, World
from binshift_operator.pods import pod_of

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


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen, with what acting upon it takes.

    Attributes:
        world: for the decision.
        manifests: of the children as they should be; without the Secret's fingerprint there are no StatefulSets.
        control: the control API; None if there is none to ask.
    """

    world: World
    manifests: Mapping[Child, Manifest] = field(repr=False)
    control: Control | None


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks.

    Attributes:
        kube: the API server.
        address: where the control API of a dataflow is.
        around: see `children.Surroundings`.
        clock: seconds since 1970.
        connect: makes the client of a control API, of its address and token.
    """

    kube: Kube
    address: Callable[[Key], str]
    around: Surroundings
    clock: Callable[[], float]
    connect: Callable[[str, str], Control] = Control

    def look(self, dataflow: Dataflow, refusals: Mapping[Child, str]) -> Seen:
        """What is now. ``refusals``: what the API server did not take of the children, when last asked.

        Raises:
            OperatorError: the API server does not answer, or refuses to.
            InvalidSettings: the spec asks for what cannot be rendered; the message says what to do.
        """
        key, now = dataflow.key, self.clock()
        secret = self._child(key, Child.KEYS)
        seen_secret = classified(secret, None, key)
        ours = seen_secret.found is Found.CURRENT and secret is not None
        keys = tokens(secret) if ours and secret is not None else None
        keys_hash = None if keys is None else fingerprint(keys)
        manifests = rendered(dataflow, keys_hash, self.around)
        children: dict[Child, ChildSeen] = {Child.KEYS: seen_secret}
        for child in Child:
            if child is not Child.KEYS:
                children[child] = self._seen(key, child, manifests.get(child))
        pods = self._pods(key, now)
        control = self.connect(self.address(key), keys[CONTROL_TOKEN]) if keys is not None else None
        runtime, silence = _runtime(control, pods)
        world = World(
            now=now,
            children=children,
            pods=pods,
            keys_hash=keys_hash,
            runtime=runtime,
            unreachable=silence,
            claim=self._claim(dataflow),
            credentials_missing=self._credentials(dataflow),
            refusals=refusals,
        )
        return Seen(world, manifests, control)

    def _child(self, key: Key, child: Child) -> Object | None:
        return self.kube.get(KINDS[child], key.namespace, key.child(child))

    def _seen(self, key: Key, child: Child, manifest: Manifest | None) -> ChildSeen:
        return classified(self._child(key, child), manifest, key)

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


def _runtime(control: Control | None, pods: tuple[Pod, ...]) -> tuple[RuntimeSeen | None, str]:
    """What the runtime says, or why it says nothing."""
    if control is None:
        return None, "there is no token to ask it with"
    if not any(pod.is_driver for pod in pods):
        return None, "there is no driver's pod"
    try:
        return control.dataflow(), ""
    except Forbidden:
        return None, "the driver does not take this token"
    except Unreachable as silent:
        return None, str(silent)
    except OperatorError as strange:
        return None, f"the driver refuses to answer: {strange}"
