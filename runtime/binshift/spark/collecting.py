"""What goes to the tasks of one job and what they tell the driver: both are forgotten with the job.

PySpark keeps every accumulator of an application, with its value, until the application ends. A query makes one an epoch and
one a background round, so each is taken out of PySpark's registry once its job has ended; what a task tells later is dropped,
as PySpark does with accumulators that it does not know.

Likewise PySpark broadcasts a function above 1 MiB, such as one with the file lists of many bins, and keeps the file that it
writes for that in the driver's temporary folder. So it never gets to see a large one: it is broadcast here, and destroyed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark import Broadcast, SparkContext, cloudpickle
from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry

Batches = Iterator[pa.RecordBatch]

LARGE_BYTES = 512 * 1024
"""Functions from here on are broadcast; well below PySpark's own limit."""

_broadcasts: dict[int, list[Broadcast[bytes]]] = {}
"""Of jobs under way, by their accumulators."""


class Collected(AccumulatorParam[list[object]]):
    """An accumulator of messages; duplicates are told apart by their fence and worker."""

    def zero(self, value: list[object]) -> list[object]:
        """Nothing collected."""
        return []

    def addInPlace(self, value1: list[object], value2: list[object]) -> list[object]:  # noqa: N802 (Spark's name)
        """Append."""
        value1 += value2
        return value1


@contextmanager
def collecting(context: SparkContext) -> Iterator[Accumulator[list[object]]]:
    """An accumulator for the jobs that are run in here; its value is to be read in here, too."""
    made = context.accumulator([], Collected())
    _broadcasts[made.aid] = []
    try:
        yield made
    finally:
        _accumulatorRegistry.pop(made.aid, None)
        for each in _broadcasts.pop(made.aid):
            with suppress(Exception):  # Spark may be gone, and then its folder goes with it
                each.destroy()


class Handed:
    """A function for `mapInArrow` that is unpickled where it is called."""

    def __init__(self, content: bytes | Broadcast[bytes]) -> None:
        self._content = content

    def __call__(self, batches: Batches) -> Batches:
        """Call it."""
        content = self._content if isinstance(self._content, bytes) else self._content.value
        function: Callable[[Batches], Batches] = cloudpickle.loads(content)
        return function(batches)


def handed(
    context: SparkContext, function: Callable[[Batches], Batches], collected: Accumulator[list[object]]
) -> Handed:
    """The same function, for the jobs of ``collected`` only, in a form that leaves nothing behind however large it is."""
    content: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    if len(content) < LARGE_BYTES:
        return Handed(content)
    made = context.broadcast(content)
    _broadcasts[collected.aid].append(made)
    return Handed(made)
