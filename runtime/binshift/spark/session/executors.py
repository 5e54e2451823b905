"""The executor of each worker slot, as Spark sees it now.

A slot is identified by the host that its executor registered from: a loopback address on one machine, the pod's name on
Kubernetes. An executor that restarts keeps the host and gets a new id; the map is read again for every run of an epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark import SparkContext

from binshift.engine.ports import Executor
from binshift.model import Worker

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

    def __init__(self, context: SparkContext, slot: Callable[[str], Worker | None] = slot_of_host) -> None:
        self._context: Any = context
        self._slot = slot

    def alive(self) -> Mapping[Worker, Executor]:
        """The newest live executor of each slot."""
        found: dict[Worker, Executor] = {}
        active = self._context._jsc.sc().statusStore().executorList(True)
        for index in range(active.size()):
            summary = active.apply(index)
            if summary.id() == DRIVER_ID:
                continue
            host = summary.hostPort().rpartition(":")[0]
            worker = self._slot(host)
            executor = Executor(summary.id(), host, summary.totalCores())
            if worker is not None and (worker not in found or int(found[worker].id) < int(executor.id)):
                found[worker] = executor
        return found
