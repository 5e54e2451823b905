"""`spark-defaults.conf`: what master, workers and program are told by the cluster, below what the user says.

The processes in the pods know by themselves what Spark has to be told of addresses, ports and binshift's protocol
(`binshift.hosting.pod.conf`). Here is what only the spec says: memory, task slots, bins, the checkpoint, and the user's own conf. How a
container's memory is shared is `binshift.memory`'s rule; `spark.driver.memory` and `spark.executor.memory` of the user replace it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from binshift import memory
from binshift_operator.model.quantities import quantity
from binshift_operator.model.specification import DEFAULTS, Dataflow

STATE_DIRECTORY = "/var/lib/binshift"
CLAIM_DIRECTORY = "/checkpoint"
MEMORY_DEFAULT = "2Gi"
"""Of a container whose resources say nothing, as only an object can that is older than the CRD's rule."""


def checkpoint_directory(dataflow: Dataflow) -> str:
    """What a program should use as checkpointLocation: a path on the claim, or a location in Hadoop's spelling."""
    kept = dataflow.checkpoint
    if kept.location is None:
        return f"{CLAIM_DIRECTORY}/{kept.path}"
    return "s3a://" + kept.location.partition("://")[2]


def resources(dataflow: Dataflow, component: str) -> Mapping[str, Any]:
    """Requests and limits of a component's main container."""
    given: Mapping[str, Any] = (dataflow.raw.get(component) or {}).get("resources") or DEFAULTS[component]["resources"]
    return given


def master_resources(dataflow: Dataflow) -> Mapping[str, Any]:
    """Requests and limits of the container of Spark's master."""
    usual: Mapping[str, Any] = DEFAULTS["driver"]["masterResources"]
    return (dataflow.raw.get("driver") or {}).get("masterResources") or usual


def master_memory(dataflow: Dataflow) -> str:
    """The heap of Spark's master, in Spark's notation: half of what its container has beyond what a Java process takes beside."""
    spare = memory_bytes(master_resources(dataflow)) // memory.MIB - memory.DAEMON_MIB
    return f"{max(memory.DAEMON_HEAP_MIB, spare // 2)}m"


def memory_bytes(found: Mapping[str, Any]) -> int:
    """The memory there is to divide: the limit, or what is requested where there is none."""
    limit = (found.get("limits") or {}).get("memory") or (found.get("requests") or {}).get("memory")
    return int(quantity(limit if limit is not None else MEMORY_DEFAULT))


def task_slots(dataflow: Dataflow) -> int:
    """Tasks that run at once on an executor: one more than its whole CPUs, 2 at least, unless it is said."""
    given = (dataflow.raw.get("executor") or {}).get("taskSlots")
    if given is not None:
        return int(given)
    found = resources(dataflow, "executor")
    cpu = (found.get("limits") or {}).get("cpu") or (found.get("requests") or {}).get("cpu")
    return max(memory.TASK_SLOTS_MIN, int(quantity(cpu) if cpu is not None else Decimal(1)) + 1)


def executor_memory(dataflow: Dataflow) -> str:
    """The executor's heap, in Spark's notation; the user's word wins.

    Raises:
        InvalidSettings: the container is too small, or the user's word is no size; the message says what would do.
    """
    given = (dataflow.raw.get("sparkConf") or {}).get("spark.executor.memory")
    if given:
        return _size(str(given).strip(), "spark.executor.memory")
    return f"{memory.worker_memory(memory_bytes(resources(dataflow, 'executor')), task_slots(dataflow)).heap_mib}m"


def driver_memory(dataflow: Dataflow) -> str:
    """The heap of the program's JVM; otherwise as `executor_memory`."""
    given = (dataflow.raw.get("sparkConf") or {}).get("spark.driver.memory")
    if given:
        return _size(str(given).strip(), "spark.driver.memory")
    return f"{memory.driver_memory(memory_bytes(resources(dataflow, 'driver'))).heap_mib}m"


def _size(given: str, what: str) -> str:
    """A user's size in the notation that Java has, too: Spark hands it on, and does not always take a number alone for MiB."""
    mib = memory.spark_mib(given, what)
    return given if re.fullmatch("[0-9]+[kmgKMG]", given) else f"{mib}m"


def spark_conf(dataflow: Dataflow) -> dict[str, str]:
    """All of it, the user's over ours. Errors as `executor_memory`."""
    ours = {
        "spark.app.name": dataflow.key.name,
        "spark.authenticate": "true",
        "spark.driver.memory": driver_memory(dataflow),
        "spark.executor.memory": executor_memory(dataflow),
        "spark.executor.cores": str(task_slots(dataflow)),
        "spark.binshift.bins": str(dataflow.raw.get("bins", DEFAULTS["bins"])),
        "spark.binshift.checkpoint": checkpoint_directory(dataflow),
    }
    sizes = {name: ours[name] for name in ("spark.driver.memory", "spark.executor.memory")}
    return {**ours, **(dataflow.raw.get("sparkConf") or {}), **sizes}


def format_properties(found: Mapping[str, str]) -> str:
    r"""The text of the file, escaped as Java's Properties want it: whatever is in a name or a value, it begins no other line.

    Raises:
        ValueError: there is a value without a name.

    >>> format_properties({"spark.b": "x\\y", "spark.a": "1"})
    'spark.a 1\nspark.b x\\\\y\n'
    """
    if "" in found:
        raise ValueError(f"sparkConf has the value {found['']!r} without a name: give it one")
    return "".join(f"{_escaped(key)} {_value(value)}\n" for key, value in sorted(found.items()))


BREAKS: Final = {"\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _value(text: str) -> str:
    shown = "".join(BREAKS.get(sign, sign) for sign in text.replace("\\", "\\\\"))
    # Space before a value, and one sign between it and its name, would be taken for what parts the two.
    return f"\\{shown}" if text.startswith((" ", "\t", "=", ":")) else shown


def _escaped(key: str) -> str:
    return "".join(BREAKS.get(sign) or (f"\\{sign}" if sign in " :=#!\\\t" else sign) for sign in key)
