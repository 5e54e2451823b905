"""Messages from the driver to a task, and back.

They are plain frozen values: Spark carries them inside its own authenticated
channels (pickled with the task's closure), the simulator hands them over in memory. A spec names everything the task
may rely on (exact files, exact stamps), so that a task never asks the log what is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from binshift.log.index.bringup import BringUp
from binshift.log.records.commits import FileRef, SnapshotRef
from binshift.model import Bin, BinSet, Epoch, Fence, Stamp, Worker


@dataclass(frozen=True)
class LogLocation:
    """Where the log is: a URL and the options its storage is opened with (no credentials: they come from the environment)."""

    url: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Recorded:
    """The part of a commit record about one (operator, worker): replay mode re-establishes it.

    Attributes:
        stamp: the state's identity after the epoch.
        delta: the keys that changed; None when none did.
    """

    stamp: Stamp
    delta: FileRef | None


@dataclass(frozen=True)
class EpochSpec:
    """One worker's part of one run of an epoch, for one operator.

    Attributes:
        fence: this run's lease.
        operator: which stateful operator of the query.
        worker: the slot.
        expect: the stamp that record ``epoch - 1`` names for this worker.
        owned_before: the bins it owned in the epoch before; they must be in the store at ``expect``.
        owned: the bins whose records this task applies; those not owned before must be copies at ``epoch - 1``.
        bring_up: the files that lead any owned bin to ``epoch - 1``; empty in the calm case.
        batch_time_ms: logical processing time.
        watermark_ms: over at or before.
        previous_watermark_ms: that of the epoch before; late at or before.
        behind: the stamp that record ``epoch - 2`` names; a store that has it was cut off before its last commit.
        replay: set when the epoch's record exists: compute the output, write nothing, then adopt this state.
        undo: whether to keep the way back.
        scratch: the worker is away, and another one's executor runs its part of a replay, in a store that is thrown away.
        count_bins: whether records are counted by bin, and a sample of the keys is taken.
    """

    fence: Fence
    operator: str
    worker: Worker
    expect: Stamp
    owned_before: BinSet
    owned: BinSet
    batch_time_ms: int
    watermark_ms: int = 0
    previous_watermark_ms: int = 0
    bring_up: BringUp | None = None
    behind: Stamp | None = None
    replay: Recorded | None = None
    undo: bool = True
    scratch: bool = False
    count_bins: bool = False

    @property
    def epoch(self) -> Epoch:
        """The micro-batch's id."""
        return self.fence.epoch

    @property
    def run_prefix(self) -> str:
        """What the attempt ids of this run start with."""
        return f"{self.fence.term}.{self.fence.epoch}.{self.fence.run}."


@dataclass(frozen=True)
class FrequentKey:
    """A task's most frequent key, by its records.

    Attributes:
        key: a text of bounded length; see `binshift.worker.key_sample.key_text`.
        bin: where it is.
        records: how many it had, roughly.
    """

    key: str
    bin: Bin
    records: int


@dataclass(frozen=True)
class Summary:
    """What one task did in one run of an epoch: sent once its input is exhausted and its delta is durable.

    Attributes:
        stamp: the state's identity now.
        delta: the file of changed keys; None when none changed.
        seconds: time by part: ``bring_up, process, delta, commit``; of the commit what the summary has waited for.
        brought_up: bins that had to be loaded inside the epoch.
        states_set: keys whose state is new or another one; in a replay as recorded.
        states_deleted: keys that have no state any more.
        rows_late: rows dropped as at or before the previous watermark; not among ``rows_in``.
        counts: further figures of the operator, by the names of Spark's custom metrics.
        rows_stored: rows of the store afterwards, copies and indexes included; see `Reader.size`.
        bytes_stored: what they take there, roughly.
        records_in: records behind ``rows_in`` and ``rows_late``, before the JVM's aggregation.
        weighed_in: the same as bins count them; see `binshift.worker.record_counter`.
        bin_records: records by bin, as `binshift.worker.record_counter.RecordCounter.packed` has them; empty if not requested.
        frequent_key: None if not requested, and where no key stands out.
        wake_at_ms: when the worker's bins need an epoch; see `EpochState.wake`.
    """

    fence: Fence
    operator: str
    worker: Worker
    stamp: Stamp
    delta: FileRef | None
    rows_in: int
    rows_out: int
    seconds: Mapping[str, float]
    brought_up: int = 0
    states_set: int = 0
    states_deleted: int = 0
    rows_late: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    rows_stored: int = 0
    bytes_stored: int = 0
    records_in: int = 0
    weighed_in: int = 0
    bin_records: bytes = b""
    frequent_key: FrequentKey | None = None
    wake_at_ms: int | None = None


@dataclass(frozen=True)
class CopyOrder:
    """Make ``bins`` copies at ``epoch``, from the files of ``bring_up``; bins already there are left alone."""

    bins: BinSet
    epoch: Epoch
    bring_up: BringUp


@dataclass(frozen=True)
class BackgroundSpec:
    """One round of background work on one worker; a round stops at its budget and reports its progress.

    Attributes:
        fence: the newest run's lease at the time of the order.
        copies: bins to bring up or to catch up.
        drop: copies to drop: retired, or of a cancelled move.
        snapshot: owned bins to write a snapshot of.
        snapshot_attempt: names the snapshot's file; starts with the driver's term, unique forever.
        budget_seconds: start nothing new after this long.
        duty: share of a core that all operators of the worker use together.
        idle: by the newest record the worker owns nothing: what its store owns is of a time before others took over.
    """

    fence: Fence
    operator: str
    worker: Worker
    copies: tuple[CopyOrder, ...] = ()
    drop: BinSet = field(default_factory=BinSet)
    snapshot: BinSet = field(default_factory=BinSet)
    snapshot_attempt: str = ""
    budget_seconds: float = 0.4
    duty: float = 1.0
    idle: bool = False


@dataclass(frozen=True)
class BackgroundReport:
    """What a round did.

    Attributes:
        copies: the epoch of every copy the store holds now; None if the round failed as a whole, and nothing is known.
        dropping: bins of which there is something left that is to go.
        snapshot: the snapshot written; it counts only if a record names the state it was read from.
        failed: why the round, or a copy, could not be made, if one could not.
        damaged: the file of the log that is to blame, if one is.
    """

    operator: str
    worker: Worker
    copies: Mapping[int, int] | None
    dropping: BinSet = field(default_factory=BinSet)
    bytes_copied: int = 0
    snapshot: SnapshotRef | None = None
    failed: str | None = None
    damaged: str | None = None
    seconds: float = 0.0
