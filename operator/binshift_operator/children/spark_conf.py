"""`spark-defaults.conf`: the defaults of master, workers and program; the user's own configuration overrides them.

The processes in the pods set addresses, ports and the keys of binshift's protocol themselves (`binshift.hosting.pod.conf`). This file has what
only the spec contains: memory, task slots, bins, the checkpoint, and the user's configuration. `binshift.memory` divides a container's
memory; the user's `spark.driver.memory` and `spark.executor.memory` replace its result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from binshift import memory
from binshift.encryption import SPARK_CONF
from binshift_operator.model.driver_settings import MAX_EPOCH_CONF
from binshift_operator.model.drivers import has_standby
from binshift_operator.model.locations import checkpoint_directory, hadoop_url
from binshift_operator.model.quantities import duration, quantity
from binshift_operator.model.resources import limit_or_request, resources
from binshift_operator.model.specification import DEFAULTS, Dataflow

STATE_DIRECTORY = "/var/lib/binshift"
MEMORY_DEFAULT = "2Gi"
"""For a container without memory resources, which only an object older than the CRD's rule can have."""


def master_resources(dataflow: Dataflow) -> Mapping[str, Any]:
    """Requests and limits of the container of Spark's master."""
    usual: Mapping[str, Any] = DEFAULTS["driver"]["masterResources"]
    return dataflow.section("driver", "masterResources") or usual


def master_memory(dataflow: Dataflow) -> str:
    """The heap of Spark's master, in Spark's notation: half of its container's memory beyond the overhead of a Java process."""
    spare = memory_bytes(master_resources(dataflow)) // memory.MIB - memory.DAEMON_MIB
    return f"{max(memory.DAEMON_HEAP_MIB, spare // 2)}m"


def memory_bytes(found: Mapping[str, Any]) -> int:
    """The memory to divide: the limit or, without one, the request."""
    limit = limit_or_request(found, "memory")
    return int(quantity(limit if limit is not None else MEMORY_DEFAULT))


def task_slots(dataflow: Dataflow) -> int:
    """Concurrent tasks of an executor: as specified, or two more than its whole CPUs; one less where the memory is too little."""
    given = dataflow.section("executor").get("taskSlots")
    if given is not None:
        return int(given)
    cpu = limit_or_request(resources(dataflow, "executor"), "cpu")
    wanted = max(1, int(quantity(cpu) if cpu is not None else Decimal(1))) + 2
    fits = memory.fits_worker(_container_bytes(dataflow, "executor"), wanted, standby=has_standby(dataflow))
    return wanted if fits else wanted - 1


def executor_memory(dataflow: Dataflow) -> str:
    """The executor's heap, in Spark's notation; the user's setting takes precedence.

    Raises:
        InvalidSettings: the container is too small, or the user's setting is not a size; the message has the remedy.
    """
    given = _given_size(dataflow, "spark.executor.memory")
    if given:
        return given
    limit, slots = _container_bytes(dataflow, "executor"), task_slots(dataflow)
    return f"{memory.worker_heap_mib(limit, slots, standby=has_standby(dataflow))}m"


def driver_memory(dataflow: Dataflow) -> str:
    """The heap of the program's JVM; otherwise as `executor_memory`."""
    given = _given_size(dataflow, "spark.driver.memory")
    return given or f"{memory.driver_heap_mib(_container_bytes(dataflow, 'driver'))}m"


def _container_bytes(dataflow: Dataflow, component: str) -> int:
    return memory_bytes(resources(dataflow, component))


def _given_size(dataflow: Dataflow, name: str) -> str:
    """A user's size in a notation that Java also accepts; empty if there is none.

    Spark passes it on, and does not always take a plain number for MiB.
    """
    given = dataflow.section("sparkConf").get(name)
    if not given:
        return ""
    size = str(given).strip()
    mib = memory.spark_mib(size, name)
    return size if re.fullmatch("[0-9]+[kmgKMG]", size) else f"{mib}m"


def spark_conf(dataflow: Dataflow) -> dict[str, str]:
    """The whole configuration; the user's keys override ours. Errors as `executor_memory`."""
    ours = {
        "spark.app.name": dataflow.key.name,
        "spark.authenticate": "true",
        "spark.driver.memory": driver_memory(dataflow),
        "spark.executor.memory": executor_memory(dataflow),
        "spark.executor.cores": str(task_slots(dataflow)),
        "spark.binshift.bins": str(dataflow.raw.get("bins", DEFAULTS["bins"])),
        "spark.binshift.checkpoint": checkpoint_directory(dataflow),
    }
    if "maxEpoch" in dataflow.raw:
        ours[MAX_EPOCH_CONF] = f"{duration(dataflow.raw['maxEpoch'])}s"
    if "standbyReplicas" in dataflow.raw:
        ours["spark.binshift.standbyReplicas"] = str(dataflow.raw["standbyReplicas"])
    if dataflow.restore_from is not None and dataflow.restore_from.location:
        ours["spark.binshift.restoreFrom"] = hadoop_url(dataflow.restore_from.location)
    sizes = {name: ours[name] for name in ("spark.driver.memory", "spark.executor.memory")}
    encryption = SPARK_CONF if dataflow.tls_secret else {}
    return {**ours, **dataflow.section("sparkConf"), **sizes, **encryption}


def format_properties(found: Mapping[str, str]) -> str:
    r"""The text of the file, escaped for Java's Properties: no name or value can begin another line.

    Raises:
        ValueError: a value has no name.

    >>> format_properties({"spark.b": "x\\y", "spark.a": "1"})
    'spark.a 1\nspark.b x\\\\y\n'
    """
    if "" in found:
        raise ValueError(f"sparkConf has the value {found['']!r} without a name: give it one")
    return "".join(f"{_escape(key)} {_value(value)}\n" for key, value in sorted(found.items()))


BREAKS: Final = {"\n": "\\n", "\r": "\\r", "\f": "\\f"}


def _value(text: str) -> str:
    shown = "".join(BREAKS.get(sign, sign) for sign in text.replace("\\", "\\\\"))
    # Leading whitespace, and one of these characters, would be parsed as the separator of name and value.
    return f"\\{shown}" if text.startswith((" ", "\t", "=", ":")) else shown


def _escape(key: str) -> str:
    return "".join(BREAKS.get(sign) or (f"\\{sign}" if sign in " :=#!\\\t" else sign) for sign in key)
