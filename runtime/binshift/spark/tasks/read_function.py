"""What runs in a task before S if Spark computes something from the state: it reads what is stored, for the rows of the epoch.

It is a Python process of its own, on the same store as S. It prepares the store for the epoch as S would, and S begins
with its first row, when that is done (see `EpochFunction`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from binshift.spark.tasks.task import Environment, Place, epoch_task
from binshift.store.opening import STAND_IN
from binshift.worker.messages import EpochSpec


class ReadFunction:
    """See the module; one call for each worker's partition."""

    def __init__(
        self, specs: tuple[EpochSpec, ...], places: tuple[Place, ...], environment: Environment, operator: bytes
    ) -> None:
        self._parts = specs, places, environment, operator

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with what was stored before the epoch."""
        with epoch_task(*self._parts, f"read.{STAND_IN}") as task:
            yield from task.read(batches)
