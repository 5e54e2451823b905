"""Functions sent to the tasks of one job, and messages that the tasks return; both are released when the job ends.

PySpark keeps every accumulator of an application, with its value, until the application ends. A query makes one per epoch and
one per background round, so each is removed from PySpark's registry once its job has ended. Messages that arrive later are
dropped, as PySpark does with unknown accumulators.

PySpark also broadcasts a function above 1 MiB, such as one with the file lists of many bins, and keeps the file that it
writes for it in the driver's temporary folder. So large functions are broadcast here instead, and destroyed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pyarrow as pa
from pyspark import Broadcast, SparkContext, cloudpickle
from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry

Batches = Iterator[pa.RecordBatch]

LARGE_BYTES = 512 * 1024
"""Functions of this size and above are broadcast; well below PySpark's own limit."""


class Collected(AccumulatorParam[list[object]]):
    """An accumulator of messages; duplicates are recognised by their fence and worker."""

    def zero(self, value: list[object]) -> list[object]:
        """Nothing collected."""
        return []

    def addInPlace(self, value1: list[object], value2: list[object]) -> list[object]:  # noqa: N802 (Spark's name)
        """Append."""
        value1 += value2
        return value1


@contextmanager
def collecting(context: SparkContext) -> Iterator[Accumulator[list[object]]]:
    """An accumulator for the jobs that run in this context; its value must be read in it, too."""
    made = context.accumulator([], Collected())
    try:
        yield made
    finally:
        _accumulatorRegistry.pop(made.aid, None)


class Handed:
    """A function for `mapInArrow` that is unpickled where it is called."""

    def __init__(self, content: bytes | Broadcast[bytes]) -> None:
        self._content = content

    def __call__(self, batches: Batches) -> Batches:
        """Call it."""
        content = self._content if isinstance(self._content, bytes) else self._content.value
        function: Callable[[Batches], Batches] = cloudpickle.loads(content)
        return function(batches)


def handed(context: SparkContext, function: Callable[[Batches], Batches], job: ExitStack) -> Handed:
    """The same function, until the end of ``job``, in a form that is released completely with it, however large it is."""
    content: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    if len(content) < LARGE_BYTES:
        return Handed(content)
    made = context.broadcast(content)
    job.callback(_destroy, made)
    return Handed(made)


def _destroy(broadcast: Broadcast[bytes]) -> None:
    with suppress(Exception):  # Spark may have ended, and its folder with it
        broadcast.destroy()
