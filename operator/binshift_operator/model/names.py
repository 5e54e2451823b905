"""Every name that operator, pods and users agree on: the resource, its children, their labels and annotations; ports are in `binshift.ports`.

The names of children are derived from the dataflow's; ownership is decided by the owner's UID, never by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

GROUP: Final = "binshift.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "StreamingDataflow"
PLURAL: Final = "streamingdataflows"
SNAPSHOT_KIND: Final = "StreamingDataflowSnapshot"
SNAPSHOT_PLURAL: Final = "streamingdataflowsnapshots"

FIELD_MANAGER: Final = "binshift-operator"
LABEL_UID: Final = f"{GROUP}/dataflow-uid"
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
LABEL_COMPONENT: Final = "app.kubernetes.io/component"
DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
MASTER: Final = "master"
WORKER: Final = "worker"

LABEL_DATAFLOW: Final = f"{GROUP}/dataflow"
"""On a periodic snapshot: the name of its dataflow."""
LABEL_PERIODIC: Final = f"{GROUP}/periodic"
"""On a snapshot: with the value "true", it is removed once there are enough newer ones; without the label it is kept."""

ANNOTATION_SPEC: Final = f"{GROUP}/restart-hash"
"""On a pod: the hash of the spec's restart class, and of the Secrets whose change restarts it."""
ANNOTATION_DATAFLOW: Final = f"{GROUP}/dataflow-hash"
"""On a pod: the hash of the part of the restart class that is not the executors' alone; pods of older operators have none."""
ANNOTATION_VERSION: Final = f"{GROUP}/operator-version"
"""On a pod: the version of the operator that rendered its template."""
ANNOTATION_KEYS: Final = f"{GROUP}/keys-hash"
"""On a pod: the fingerprint of the Secret that it was created with."""

ANNOTATION_PAUSED: Final = f"{GROUP}/paused"
"""On a dataflow: with the value "true", the operator changes nothing."""

CONTROL_TOKEN: Final = "control-token"
DRAIN_TOKEN: Final = "drain-token"
SPARK_SECRET: Final = "spark-secret"
KEYS: Final = (CONTROL_TOKEN, DRAIN_TOKEN, SPARK_SECRET)


class Child(StrEnum):
    """The objects of a dataflow, in the order in which they are applied."""

    SERVICE_ACCOUNT = "ServiceAccount"
    KEYS = "Secret"
    SPARK_CONF = "ConfigMap"
    NETWORK_POLICY = "NetworkPolicy"
    DRIVER_SERVICE = "DriverService"
    EXECUTOR_SERVICE = "ExecutorService"
    DISRUPTION_BUDGET = "PodDisruptionBudget"
    DRIVER_DISRUPTION_BUDGET = "DriverPodDisruptionBudget"
    """Of a dataflow with a standby driver."""
    EXECUTORS = "ExecutorStatefulSet"
    DRIVER = "DriverStatefulSet"

    @property
    def kind(self) -> str:
        """Its kind in the API server.

        >>> Child.DRIVER.kind
        'StatefulSet'
        """
        return self.value.removeprefix("Driver").removeprefix("Executor")


SUFFIXES: Final = {
    Child.KEYS: "-keys",
    Child.SPARK_CONF: "-spark",
    Child.DRIVER_SERVICE: "-driver",
    Child.DRIVER: "-driver",
    Child.EXECUTOR_SERVICE: "-executor",
    Child.EXECUTORS: "-executor",
    Child.DISRUPTION_BUDGET: "-executor",
    Child.DRIVER_DISRUPTION_BUDGET: "-driver",
}
"""The name of a child is that of its dataflow with this suffix, if any."""


@dataclass(frozen=True, slots=True)
class DataflowKey:
    """The identity of a dataflow: namespace and name, and the UID that distinguishes it from another one of that name."""

    kind: ClassVar[str] = KIND
    noun: ClassVar[str] = "dataflow"
    namespace: str
    name: str
    uid: str

    @property
    def driver(self) -> str:
        """Name of the driver's StatefulSet and of its service."""
        return f"{self.name}-driver"

    @property
    def executor(self) -> str:
        """Name of the executors' StatefulSet and of their service."""
        return f"{self.name}-executor"

    @property
    def driver_host(self) -> str:
        """The host name of the driver's pod within the namespace."""
        return self.driver_hosts(1)[0]

    def driver_hosts(self, drivers: int) -> tuple[str, ...]:
        """The host names of the drivers' pods within the namespace.

        >>> DataflowKey("ns", "clicks", "u").driver_hosts(2)
        ('clicks-driver-0.clicks-driver', 'clicks-driver-1.clicks-driver')
        """
        return tuple(f"{self.driver}-{slot}.{self.driver}" for slot in range(drivers))

    @property
    def control_host(self) -> str:
        """The host name of the driver's control API within the cluster, which its certificate is for.

        >>> DataflowKey("ns", "clicks", "u").control_host
        'clicks-driver.ns.svc'
        """
        return f"{self.driver}.{self.namespace}.svc"

    def child(self, which: Child) -> str:
        """The name of a child.

        >>> DataflowKey("ns", "clicks", "u").child(Child.KEYS)
        'clicks-keys'
        """
        return f"{self.name}{SUFFIXES.get(which, '')}"


@dataclass(frozen=True, slots=True)
class SnapshotKey:
    """The identity of a snapshot: namespace and name, and the UID that distinguishes it from another one of that name."""

    kind: ClassVar[str] = SNAPSHOT_KIND
    noun: ClassVar[str] = "snapshot"
    namespace: str
    name: str
    uid: str
