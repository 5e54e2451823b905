"""The executor of each worker slot, as Spark sees it now.

A slot is identified by the host that its executor registered from: a loopback address on one machine, the pod's name on
Kubernetes. An executor that restarts keeps the host and gets a new id; the map is read again for every run of an epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyspark import SparkContext

from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.spark.session.jvm import Jvm

DRIVER_ID = "driver"


def location(executor: Executor) -> str:
    """The name of an executor in a preferred location of Spark's scheduler."""
    return f"executor_{executor.host}_{executor.id}"


def slot_of_host(host: str) -> Worker | None:
    """The slot of a host name; None if it is not a worker's.

    >>> slot_of_host("127.0.0.3"), slot_of_host("clicks-executor-11.clicks-executors.ns.svc")
    (1, 11)
    """
    loopback = re.fullmatch(r"127\.0\.0\.(\d+)", host)
    if loopback:
        return Worker(int(loopback.group(1)) - 2) if int(loopback.group(1)) >= 2 else None
    pod = re.fullmatch(r"[a-z0-9.-]*?-(\d+)", host.partition(".")[0])
    return Worker(int(pod.group(1))) if pod else None


class ExecutorView:
    """Reads the live executors from Spark's status store."""

    def __init__(self, context: SparkContext, jvm: Jvm, slot: Callable[[str], Worker | None] = slot_of_host) -> None:
        self._context = context
        self._jvm = jvm
        self._slot = slot

    def alive(self) -> Mapping[Worker, Executor]:
        """The newest live executor of each slot."""
        found: dict[Worker, Executor] = {}
        for id, address, cores in self._jvm.executors(self._context):
            if id == DRIVER_ID:
                continue
            host = address.rpartition(":")[0]
            worker = self._slot(host)
            if worker is not None and (worker not in found or int(found[worker].id) < int(id)):
                found[worker] = Executor(id, host, cores)
        return found
