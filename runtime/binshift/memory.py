"""How a container's memory limit is shared by the processes inside it: a fixed rule instead of manual tuning.

A container that exceeds its limit is killed as a whole, and Java takes whatever heap it was given. So the heap is what is
left when everything else has its part, and no more than half of what data can use, as binshift's state is in Python.

| worker | MiB | for |
|---|---|---|
| daemon | 256 | Spark's worker process, which starts the executor; with a standby driver, two of them with half the heap each |
| overhead | 256 + 5 % of the limit | the executor's JVM outside its heap: classes, compiled code, threads, network buffers |
| processes | 128 for each task slot, and 128 | Python with pandas and Arrow loaded, before it sees a row |
| standby | 320, with a standby driver | that driver's executor until it takes over, with Python processes that share modules with the others |
| heap | half of the rest | exchange, sorting, the user's stateless part |
| data | the other half | Arrow batches and state in Python, and pages of the local stores while they are written |

| driver | MiB | for |
|---|---|---|
| supervisor | 128 | the process that keeps the control API up |
| program | 256 | the user's Python |
| overhead | 256 + 5 % of the limit | as above |
| heap | the rest | planning, broadcast, results that are collected |

The local stores are files that are mapped, so their clean pages count for the container but never kill it. Who knows better
sets ``spark.executor.memory`` or ``spark.driver.memory``. Pure: the operator computes with it, too.
"""

from __future__ import annotations

import re
from typing import Final

from binshift.errors import InvalidSettings

MIB: Final = 1 << 20
HEAP_MIB_MIN: Final = 512
"""Spark refuses to start with less than 450."""
DATA_MIB_MIN: Final = 64
DAEMON_HEAP_MIB: Final = 128
"""Heap of Spark's master and worker processes, which allocate next to nothing."""
DAEMON_MIB: Final = 256
"""What such a process takes in all."""
OVERHEAD_MIB: Final = 256
OVERHEAD_PERCENT: Final = 5
PROCESS_MIB: Final = 128
STANDBY_MIB: Final = 320
SUPERVISOR_MIB: Final = 128
PROGRAM_MIB: Final = 256
TASK_SLOTS_MIN: Final = 2
"""An epoch's task, and a background task at the same time."""


_SPARK_BYTES: Final = {"b": 1, **{unit: 1024**power for power, unit in enumerate("kmgtp", start=1)}}


def worker_heap_mib(limit_bytes: int, task_slots: int, *, standby: bool = False) -> int:
    """The heap of a worker's executor, in MiB, in a container of that limit; see the table above.

    Args:
        limit_bytes: of the container.
        task_slots: of the executor.
        standby: whether the dataflow has a standby driver.

    Raises:
        InvalidSettings: the limit is too small, or there are too few task slots; the message has the minimum.

    >>> worker_heap_mib(2 * 1024 * MIB, 2)
    525
    """
    if task_slots < TASK_SLOTS_MIN:
        raise InvalidSettings(
            f"a worker with {task_slots} task slots cannot copy state during an epoch: give it {TASK_SLOTS_MIN} or more"
        )
    limit, fixed = limit_bytes // MIB, DAEMON_MIB + PROCESS_MIB * (task_slots + 1) + STANDBY_MIB * standby
    rest = limit - _overhead(limit) - fixed
    if rest < HEAP_MIB_MIN + DATA_MIB_MIN:
        what = f"an executor with {task_slots} task slots{' and that of a standby driver' * standby}"
        raise _too_small(what, limit, fixed + HEAP_MIB_MIN + DATA_MIB_MIN)
    return max(HEAP_MIB_MIN, rest // 2)


def fits_worker(limit_bytes: int, task_slots: int, *, standby: bool = False) -> bool:
    """Whether a container of that limit is large enough for a worker with so many task slots; arguments as `worker_heap_mib`.

    >>> fits_worker(1600 * MIB, 2), fits_worker(1600 * MIB, 3)
    (True, False)
    """
    try:
        worker_heap_mib(limit_bytes, task_slots, standby=standby)
    except InvalidSettings:
        return False
    return True


def driver_heap_mib(limit_bytes: int) -> int:
    """The heap of a driver, in MiB, in a container of that limit; see the table above.

    Raises:
        InvalidSettings: it is too small; the message has the minimum.

    >>> driver_heap_mib(2 * 1024 * MIB)
    1306
    """
    limit, fixed = limit_bytes // MIB, SUPERVISOR_MIB + PROGRAM_MIB
    heap = limit - _overhead(limit) - fixed
    if heap < HEAP_MIB_MIN:
        raise _too_small("a driver", limit, fixed + HEAP_MIB_MIN)
    return heap


def spark_mib(text: str, what: str) -> int:
    """A size of memory as Spark writes it, in whole MiB; a number alone is MiB. ``what`` it is, for the message.

    Raises:
        InvalidSettings: it is none, or less than one MiB.

    >>> spark_mib("2gb", "x"), spark_mib("2G", "x"), spark_mib("900", "x"), spark_mib("524288K", "x"), spark_mib(" 1t ", "x")
    (2048, 2048, 900, 512, 1048576)
    """
    found = re.fullmatch(r"([0-9]{1,18})(?:([kmgtp])b?|(b))?", text.strip().lower())
    mib = 0 if found is None else int(found[1]) * _SPARK_BYTES[found[2] or found[3] or "m"] // MIB
    if mib < 1:
        raise InvalidSettings(f"{what} is {text[:20]!r}; it must be a size such as 900m or 2g")
    return mib


def _overhead(limit_mib: int) -> int:
    return OVERHEAD_MIB + limit_mib * OVERHEAD_PERCENT // 100


def _too_small(what: str, limit_mib: int, others_mib: int) -> InvalidSettings:
    """The least limit under which the overhead and everything else fit."""
    least = -(-100 * (OVERHEAD_MIB + others_mib) // (100 - OVERHEAD_PERCENT))
    return InvalidSettings(f"{what} does not fit in {limit_mib} MiB of memory: give its container {least} MiB or more")
