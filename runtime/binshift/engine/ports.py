"""What the engine needs of the machinery below it: executors, jobs, and the stream's batches.

Spark implements these ports in `binshift.spark`, the simulator in `simulator`. A port carries things out and reports
what came of it; everything that is decided (runs again, takes over, gives up, waits) is decided by the loops above it.
Errors that leave a port are of the tree in `binshift.errors`, so a loop never reads a message. Whether a run of an epoch is a
Spark job or messages to standing tasks is decided below `Jobs`: both get the same specs and return the same summaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from binshift.engine.clock import Clock, SystemClock
from binshift.engine.epoch_plan import BatchOffsets, EpochPlan
from binshift.model import Epoch, Worker
from binshift.worker.messages import BackgroundReport, BackgroundSpec, EpochSpec, Summary

Batch = TypeVar("Batch")
"""One micro-batch's input, as the stream hands it over; the loops only pass it on."""

BatchIn = TypeVar("BatchIn", contravariant=True)


@dataclass(frozen=True, slots=True)
class Executor:
    """A live executor.

    Attributes:
        id: new after each restart.
        host: the host it registered with.
        cores: task slots.
    """

    id: str
    host: str
    cores: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the tasks of one run of an epoch go.

    Attributes:
        parts: the executor of each worker's part; an absent worker's is another worker's.
        alive: all executors, by worker.
        readers: executors that compute the batch's own tasks; empty: any.
    """

    parts: Mapping[Worker, Executor]
    alive: Mapping[Worker, Executor]
    readers: tuple[Executor, ...] = ()


class Executors(Protocol):
    """The executors of the application."""

    def alive(self) -> Mapping[Worker, Executor]:
        """The newest live executor of each slot."""


class Jobs(Protocol[BatchIn]):
    """Runs tasks on executors; one job a call. Each task runs on the executor it is given, or its job fails.

    Every method raises `Retryable` where an executor or a task was lost, and another error where trying again cannot help.
    """

    def epoch(
        self,
        batch: BatchIn,
        plan: EpochPlan,
        specs: Sequence[EpochSpec],
        on: Placement,
        ready: Callable[[], None],
    ) -> Sequence[Summary]:
        """One run of an epoch: every task to its end, every row to the sink.

        Args:
            batch: the input.
            plan: of the epoch.
            specs: of its tasks, in the order of ``plan.workers``.
            on: where they run.
            ready: called after planning, before the sink may write; raises if the run must not continue.
        """

    def publish(self, epoch: Epoch) -> None:
        """Let readers see the results of an epoch that is recorded."""

    def background(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        """Background work, one task each; ``report`` gets what tasks have sent, also where this raises."""

    def rehearse(self, on: Mapping[Worker, Executor]) -> None:
        """Make these executors ready for their first epoch."""

    def working(self) -> bool:
        """Whether a job of an epoch runs now."""


class Batches(Protocol):
    """The stream that hands over batches."""

    def offsets(self, epoch: Epoch) -> BatchOffsets:
        """The state of a batch in the stream's own log."""

    def next_watermark_ms(self) -> int | None:
        """The watermark of the batch after the one that runs, all rows of which have been read; None: no batch is due for it."""

    def wake(self, *, final: bool) -> None:
        """Trigger one more epoch, even if there is no input; ``final``: even if the stream would otherwise end first."""

    def wake_at(self, time_ms: int | None) -> None:
        """Trigger one more epoch once the stream's clock has reached this time (milliseconds since 1970), unless one begins after
        it anyway. It takes the place of the time given before; None: no time. A stream that ends by itself does not wait for it.
        """


@dataclass(frozen=True)
class Ports(Generic[Batch]):
    """The machinery below one query's loops.

    Attributes:
        executors: those there are.
        jobs: runs tasks.
        batches: the stream.
        clock: measures, and waits.
    """

    executors: Executors
    jobs: Jobs[Batch]
    batches: Batches
    clock: Clock = field(default_factory=SystemClock)
