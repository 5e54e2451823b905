"""The operator's process: puts the parts together, watches, looks, and ends when it is told to.

Kopf watches on the main thread and handles signals; the Lease is renewed and looks happen on threads of their own (`looking`), so that a slow driver or
API server holds up neither the watch nor the probes.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping

import kopf
from prometheus_client.registry import CollectorRegistry

from binshift_operator import logs, watching
from binshift_operator.act import Actor
from binshift_operator.configuration import Configuration
from binshift_operator.errors import InvalidConfiguration, Unreachable
from binshift_operator.kube import Kube, ServerConnection
from binshift_operator.leading import Alone, Leadership
from binshift_operator.looking import Looking
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.observe import Observer
from binshift_operator.probes import ProbeServer
from binshift_operator.reconcile import Reconciler
from binshift_operator.schedule import Place, Schedule

log = logging.getLogger(__name__)


def main(environment: Mapping[str, str]) -> int:
    """Run until a signal; the exit status."""
    try:
        configuration = Configuration.from_environment(environment)
        connection = ServerConnection()
    except (InvalidConfiguration, Unreachable) as wrong:
        sys.stderr.write(f"binshift-operator: {wrong}\n")
        return 2
    logs.configured(configuration.log_level)
    collected = CollectorRegistry()
    metrics = OperatorMetrics(collected)
    lease = leadership(configuration, Kube(connection))
    kube = Kube(connection, metrics.wrote, lease.held)
    reconciler = reconciling(configuration, kube, metrics)
    lease.told = following(reconciler, metrics)
    schedule = Schedule(time.monotonic)
    many = configuration.namespaces, configuration.resync_seconds, configuration.workers, configuration.selector
    looking = Looking(schedule, reconciler.look, kube, metrics, *many, lease.held)
    probes = ProbeServer(configuration.http_port, looking.stuck, looking.unready, collected)
    probes.start()
    lease.start()
    looking.start()
    log.info("the operator looks after dataflows in %s", ", ".join(configuration.namespaces) or "all namespaces")
    try:
        kopf.run(
            registry=watching.registry(waking(reconciler, schedule), configuration.selector),
            clusterwide=not configuration.namespaces,
            namespaces=configuration.namespaces,
            standalone=True,
            # Kopf would ask the system for the user's name, and a user that the cluster draws has none.
            identity=configuration.pod,  # type: ignore[arg-type]
        )
    finally:
        looking.stop()
        lease.stop()
        probes.stop()
    return 0


def leadership(configuration: Configuration, kube: Kube) -> Leadership | Alone:
    """What says whether this process acts: its Lease or, where none is wanted, that it is alone."""
    if not configuration.lease:
        return Alone()
    return Leadership(
        kube, configuration.around.namespace, configuration.lease, configuration.pod, time.monotonic, time.time
    )


def reconciling(configuration: Configuration, kube: Kube, metrics: OperatorMetrics) -> Reconciler:
    """What looks at one dataflow."""
    return Reconciler(
        kube,
        Observer(kube, configuration.address, configuration.around, time.time, operator=configuration.name),
        Actor(kube, configuration.name),
        configuration.limits,
        metrics,
        time.time,
        configuration.resync_seconds,
        configuration.selector,
    )


def following(reconciler: Reconciler, metrics: OperatorMetrics) -> Callable[[bool], None]:
    """What to do once this process may act, or may not any more."""

    def told(held: bool) -> None:
        metrics.leading.set(held)
        if held:
            metrics.resumed()
        else:
            reconciler.rest()

    return told


def waking(reconciler: Reconciler, schedule: Schedule) -> Callable[[Place], None]:
    """What to do about an event: forget what was seen of the dataflow, then look at it."""

    def wake(place: Place) -> None:
        reconciler.noticed(*place)
        schedule.wake(place)

    return wake


def run() -> None:
    """The command's entry point."""
    sys.exit(main(os.environ))
