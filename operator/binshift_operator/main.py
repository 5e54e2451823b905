"""The operator's process: wires the components, runs until a signal, and shuts down.

Kopf runs the watches and handles signals on the main thread. The Lease is renewed and dataflows are reconciled on other threads
(`leading`, `controller`), so a slow driver or API server blocks neither the watches nor the probes.
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
from binshift_operator.actor import Actor
from binshift_operator.configuration import Configuration
from binshift_operator.controller import Controller
from binshift_operator.errors import InvalidConfiguration, Unreachable
from binshift_operator.kube import Kube, ServerConnection
from binshift_operator.leader_election import AlwaysLeader, LeaderElector
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.observe import Observer
from binshift_operator.probes import ProbeServer
from binshift_operator.reconcile import Reconciler
from binshift_operator.work_queue import ObjectKey, WorkQueue

log = logging.getLogger(__name__)


def main(environment: Mapping[str, str]) -> int:
    """Run until a signal; the exit status."""
    try:
        configuration = Configuration.from_environment(environment)
        connection = ServerConnection()
    except (InvalidConfiguration, Unreachable) as wrong:
        sys.stderr.write(f"binshift-operator: {wrong}\n")
        return 2
    logs.configure(configuration.log_level)
    collected = CollectorRegistry()
    metrics = OperatorMetrics(collected)
    lease = make_elector(configuration, Kube(connection))
    kube = Kube(connection, metrics.record_write, lease.is_leader)
    reconciler = make_reconciler(configuration, kube, metrics)
    lease.on_change = leadership_handler(reconciler, metrics)
    queue = WorkQueue(time.monotonic)
    many = configuration.namespaces, configuration.resync_seconds, configuration.workers, configuration.selector
    controller = Controller(queue, reconciler.reconcile, kube, metrics, *many, lease.is_leader)
    probes = ProbeServer(configuration.http_port, controller.liveness_problem, controller.readiness_problem, collected)
    probes.start()
    lease.start()
    controller.start()
    log.info("serving dataflows in %s", ", ".join(configuration.namespaces) or "all namespaces")
    try:
        kopf.run(
            registry=watching.registry(event_handler(reconciler, queue), configuration.selector),
            clusterwide=not configuration.namespaces,
            namespaces=configuration.namespaces,
            standalone=True,
            # Kopf would ask the system for the user's name, and a user that the cluster draws has none.
            identity=configuration.pod,  # type: ignore[arg-type]
        )
    finally:
        controller.stop()
        lease.stop()
        probes.stop()
    return 0


def make_elector(configuration: Configuration, kube: Kube) -> LeaderElector | AlwaysLeader:
    """What says whether this process acts: its Lease or, where none is wanted, that it is alone."""
    if not configuration.lease:
        return AlwaysLeader()
    return LeaderElector(
        kube, configuration.render_context.namespace, configuration.lease, configuration.pod, time.monotonic, time.time
    )


def make_reconciler(configuration: Configuration, kube: Kube, metrics: OperatorMetrics) -> Reconciler:
    """What looks at one dataflow."""
    return Reconciler(
        kube,
        Observer(kube, configuration.address, configuration.render_context, time.time, operator=configuration.name),
        Actor(kube, configuration.name),
        configuration.timeouts,
        metrics,
        time.time,
        configuration.resync_seconds,
        configuration.selector,
    )


def leadership_handler(reconciler: Reconciler, metrics: OperatorMetrics) -> Callable[[bool], None]:
    """The callback for a change of leadership."""

    def on_change(is_leader: bool) -> None:
        metrics.leading.set(is_leader)
        if is_leader:
            metrics.resume()
        else:
            reconciler.forget_all()

    return on_change


def event_handler(reconciler: Reconciler, queue: WorkQueue) -> Callable[[ObjectKey], None]:
    """The callback for a watch event: drop the cached observation of the dataflow, and queue it."""

    def on_event(key: ObjectKey) -> None:
        reconciler.invalidate(*key)
        queue.add(key)

    return on_event


def run() -> None:
    """The command's entry point."""
    sys.exit(main(os.environ))
