"""The operator's process: wires the components, runs until a signal, and shuts down.

Kopf runs the watches and handles signals on the main thread. The Lease is renewed and dataflows are reconciled on other threads
(`leader_election`, `controller`), so a slow driver or API server blocks neither the watches nor the probes.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import kopf
from prometheus_client.registry import CollectorRegistry

from binshift_operator import watching
from binshift_operator.actor import Actor
from binshift_operator.configuration import Configuration
from binshift_operator.controller import Controller, Heartbeats
from binshift_operator.driver_access import DriverAccess
from binshift_operator.errors import InvalidConfiguration, Refused, Unreachable
from binshift_operator.kube import Kube, ServerConnection
from binshift_operator.leader_election import AlwaysLeader, LeaderElector
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.names import KIND, SNAPSHOT_KIND
from binshift_operator.model.node_taints import Taints
from binshift_operator.nodes import Nodes
from binshift_operator.observe import Observer
from binshift_operator.probes import ProbeServer
from binshift_operator.reconcile import Reconciler
from binshift_operator.rights import missing_right
from binshift_operator.snapshot_codec import is_unfinished
from binshift_operator.snapshot_reconcile import SnapshotReconciler
from binshift_operator.snapshot_schedules import ScheduleReconciler, has_schedule
from binshift_operator.watching import Listeners
from binshift_operator.work_queue import ObjectKey, WorkQueue

log = logging.getLogger(__name__)
LOG_FIELDS = ("dataflow", "snapshot", "schedule", "reason")
"""Additional fields of log records."""
SNAPSHOTS_RESYNC_SECONDS = 300.0
SNAPSHOT_WORKERS = 4
"""Threads for snapshots, and for schedules."""


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{name: getattr(record, name) for name in LOG_FIELDS if isinstance(getattr(record, name, None), str)},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure_logging(level: str) -> None:
    """Log everything from this level on; libraries that log every request only from warnings on."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for verbose in ("kopf", "kubernetes", "urllib3", "aiohttp", "httpx2", "httpcore2"):
        logging.getLogger(verbose).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


def main(environment: Mapping[str, str]) -> int:
    """Run until a signal; the exit status."""
    try:
        configuration = Configuration.from_environment(environment)
        connection = ServerConnection()
    except (InvalidConfiguration, Unreachable) as wrong:
        sys.stderr.write(f"binshift-operator: {wrong}\n")
        return 2
    configure_logging(configuration.log_level)
    collected = CollectorRegistry()
    metrics = OperatorMetrics(collected)
    elector, heartbeats = make_elector(configuration, Kube(connection)), Heartbeats()
    kube = Kube(connection, metrics.record_write, elector.is_leader, heartbeats.beat)
    nodes = Nodes()
    reconciler = make_reconciler(configuration, kube, metrics, nodes)
    elector.on_change = leadership_handler(reconciler, metrics)
    many = configuration.namespaces, configuration.resync_seconds, configuration.workers, configuration.selector
    parts = WorkQueue(time.monotonic), reconciler.reconcile, kube, metrics
    controllers = [controller := Controller(*parts, *many, elector.is_leader, heartbeats)]
    probes = ProbeServer(
        configuration.http_port, lambda: liveness_problem(controllers), controller.readiness_problem, collected
    )
    probes.start()
    elector.start()
    on_event = event_handler(reconciler, controller.queue)
    listeners = Listeners(on_event, node=node_handler(nodes, reconciler, on_event) if nodes.load(kube) else None)
    if serves_snapshots(kube, configuration.namespaces):
        snapshots, schedules = make_snapshot_controllers(configuration, kube, metrics, elector.is_leader, heartbeats)
        controllers += snapshots, schedules
        listeners = replace(listeners, schedule=schedules.queue.add, snapshot=snapshots.queue.add)
    for each in controllers:
        each.start()
    log.info("serving dataflows in %s", ", ".join(configuration.namespaces) or "all namespaces")
    try:
        watch(configuration, listeners)
    finally:
        for each in controllers:
            each.stop()
        elector.stop()
        probes.stop()
    return 0


def watch(configuration: Configuration, listeners: Listeners) -> None:
    """Run the watches until a signal."""
    kopf.run(
        registry=watching.registry(listeners, configuration.selector),
        clusterwide=not configuration.namespaces,
        namespaces=configuration.namespaces,
        standalone=True,
        # Kopf would read the user's name from the system, and a user ID that the cluster assigns has none.
        identity=configuration.pod,  # type: ignore[arg-type]
    )


def make_elector(configuration: Configuration, kube: Kube) -> LeaderElector | AlwaysLeader:
    """The elector of this process, which is always the leader if no Lease is configured."""
    if not configuration.lease:
        return AlwaysLeader()
    return LeaderElector(
        kube, configuration.render_context.namespace, configuration.lease, configuration.pod, time.monotonic, time.time
    )


def make_reconciler(configuration: Configuration, kube: Kube, metrics: OperatorMetrics, nodes: Nodes) -> Reconciler:
    """The reconciler with its components."""
    where, name = (configuration.address, configuration.render_context), configuration.name
    return Reconciler(
        kube,
        Observer(kube, *where, time.time, operator=name, going=nodes.going),
        Actor(kube, configuration.name),
        configuration.timeouts,
        metrics,
        time.time,
        configuration.resync_seconds,
        configuration.selector,
    )


def make_snapshot_controllers(
    configuration: Configuration,
    kube: Kube,
    metrics: OperatorMetrics,
    is_leader: Callable[[], bool],
    heartbeats: Heartbeats,
) -> tuple[Controller, Controller]:
    """The controllers of snapshots and of schedules. They are listed seldom, as events are enough unless one is lost."""
    drivers, selector = DriverAccess(kube, configuration.address), configuration.selector
    schedules, queue = ScheduleReconciler(kube, drivers, time.time, selector), WorkQueue(time.monotonic)
    snapshots = SnapshotReconciler(kube, drivers, time.time, selector, queue.add)
    namespaces, seconds = configuration.namespaces, max(SNAPSHOTS_RESYNC_SECONDS, configuration.resync_seconds)
    common = (kube, metrics, namespaces, seconds, SNAPSHOT_WORKERS)
    active = (is_leader, heartbeats)
    made = WorkQueue(time.monotonic)
    return (
        Controller(made, snapshots.reconcile, *common, "", *active, SNAPSHOT_KIND, "snapshot", is_unfinished),
        Controller(queue, schedules.reconcile, *common, selector, *active, KIND, "schedule", has_schedule),
    )


def serves_snapshots(kube: Kube, namespaces: Sequence[str]) -> bool:
    """Whether snapshots are served, which roles of an earlier release do not permit; if the API server does not answer, they are."""
    try:
        missing = missing_right(kube, SNAPSHOT_KIND, namespaces)
    except Unreachable as error:
        # If the right is missing after all, the watch ends the process, and the next one checks again.
        log.warning("it is unknown whether there is a right to watch snapshots: %s", error)
        return True
    except Refused as error:
        missing = str(error)
    if missing:
        log.warning("snapshots and their schedules are not served: %s; grant it and restart the operator", missing)
    return not missing


def liveness_problem(controllers: Sequence[Controller]) -> str:
    """Why one of the controllers is not alive; empty if all are."""
    return "; ".join(dict.fromkeys(filter(None, (each.liveness_problem() for each in controllers))))


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


def node_handler(
    nodes: Nodes, reconciler: Reconciler, on_event: Callable[[ObjectKey], None]
) -> Callable[[str, Taints], None]:
    """The callback for a watch event of a node: only if it is about to go, or is no longer, an event of the dataflows that it concerns."""

    def on_node(name: str, taints: Taints) -> None:
        if nodes.update(name, taints):
            for key in reconciler.on_node(name):
                on_event(key)

    return on_node


def run() -> None:
    """The command's entry point."""
    sys.exit(main(os.environ))
