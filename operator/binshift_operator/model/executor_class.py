"""The two parts of a dataflow's restart class: the *executor class*, whose edits roll the executors while the query runs, and the rest.

The rest is the *dataflow class*. It has a hash of its own, which every pod carries next to the hash of the whole restart class:

- A driver is outdated if its dataflow class is.
- An executor is outdated if its whole restart class is. If only its executor class is, it can be rolled (`decide.rolling`).

The executor class is `spec.executor`, except for what Spark's application has requested when its driver started: the heap and the number
of task slots of each executor. Spark has one value of these for all executors and cannot change it, so an edit that changes the memory or
the whole CPUs of which they are computed belongs to the dataflow class, unless the spec sets them explicitly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from binshift_operator.model.names import EXECUTOR
from binshift_operator.model.quantities import quantity
from binshift_operator.model.resources import limit_or_request, resources
from binshift_operator.model.specification import Dataflow, restart_hash

HEAP: Final = "spark.executor.memory"


def dataflow_hash(dataflow: Dataflow) -> str:
    """The hash of the dataflow class, with that of the referenced Secrets if it restarts when they change.

    >>> from binshift_operator.model.names import DataflowKey
    >>> def flow(**executor: Any) -> Dataflow:
    ...     return Dataflow(DataflowKey("ns", "clicks", "u"), 1, False, False, raw={"image": "a", "executor": executor})
    >>> dataflow_hash(flow()) == dataflow_hash(flow(pod={"nodeSelector": {"disk": "fast"}}, restartNonce=1))
    True
    >>> dataflow_hash(flow()) == dataflow_hash(flow(taskSlots=5))
    False
    """
    whole = restart_hash({**dataflow.raw, EXECUTOR: _requested_by_application(dataflow)})
    return f"{whole}-{dataflow.secrets_hash}" if dataflow.secrets_hash else whole


def _requested_by_application(dataflow: Dataflow) -> Mapping[str, Any]:
    """That of which the heap and the task slots of an executor are computed; what the spec sets explicitly needs nothing else."""
    slots, heap = dataflow.section(EXECUTOR).get("taskSlots"), dataflow.section("sparkConf").get(HEAP)
    found: dict[str, Any] = {} if slots is None else {"taskSlots": slots}
    # Task slots that are not set depend on the memory, too.
    if slots is None or not heap:
        found["memory"] = _amount(limit_or_request(resources(dataflow, EXECUTOR), "memory"))
    if slots is None:
        cpus = _amount(limit_or_request(resources(dataflow, EXECUTOR), "cpu"))
        found["cpus"] = cpus if isinstance(cpus, str) else max(1, int(cpus))
    return {name: str(value) for name, value in found.items()}


def _amount(given: Any) -> int | str:
    """Whole units of a quantity; one that is invalid as it is written: rendering rejects it."""
    if given is None:
        return 0
    try:
        return int(quantity(given))
    except ValueError:
        return str(given)
