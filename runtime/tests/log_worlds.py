"""Scripted histories of a log, and plain dictionaries with the expected contents.

A `World` runs epochs against a real index and real data files (in a dictionary instead of a store). It also keeps the
state of every epoch as an ordinary dict: the oracle that bring-ups are compared with.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from binshift import entries
from binshift.errors import LogDamaged, LogFileMissing
from binshift.log.files import blocks, reading
from binshift.log.index.bringup import BringUp
from binshift.log.index.index import Index
from binshift.log.records import bin_sizes
from binshift.log.records.commits import CommitRecord, FileRef, Part, SnapshotRef, route_changes, whole_route
from binshift.log.storage import layout
from binshift.log.storage.contract import ByteRange, Bytes, Listed, Storage
from binshift.model import BEFORE_FIRST, BinSet, Epoch, Moves, Worker
from binshift.routing import Route

Rows = dict[tuple[int, bytes], bytes]
"""State of one operator: (bin, key) -> value."""


class DictStorage:
    """A `Storage` in a dictionary."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.read: list[tuple[str, ByteRange]] = []

    @property
    def url(self) -> str:
        return "dict://"

    def put(self, name: str, data: bytes) -> None:
        self.files[name] = bytes(data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(name, bytes(data)) == data

    def upload(self, name: str) -> DictUpload:
        return DictUpload(self, name)

    def get(self, name: str) -> bytes:
        if name not in self.files:
            raise LogFileMissing(f"{name} is not at {self.url}")
        self.read.append((name, (0, len(self.files[name]))))
        return self.files[name]

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        return map(self.get, names)

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        data = self.get(name)
        self.read[-1:] = [(name, each) for each in ranges]
        if any(end > len(data) for _, end in ranges):
            raise LogDamaged(f"{name} ends at {len(data)}")
        return [data[start:end] for start, end in ranges]

    def exists(self, name: str) -> bool:
        return name in self.files

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            self.files.pop(name, None)

    def list(self, prefix: str) -> Iterator[Listed]:
        hidden = not prefix.startswith(".")
        names = [n for n in sorted(self.files) if n.startswith(prefix) and not (hidden and n.startswith("."))]
        return iter([Listed(name, len(self.files[name])) for name in names])


class DictUpload:
    """Its `Upload`."""

    def __init__(self, storage: DictStorage, name: str) -> None:
        self.storage, self.name, self.parts = storage, name, [b""]

    def write(self, data: Bytes) -> None:
        self.parts.append(bytes(data))

    def finish(self) -> None:
        self.storage.put(self.name, b"".join(self.parts))

    def abort(self) -> None:
        self.parts.clear()


@dataclass
class World:
    """A log being written, and its expected contents."""

    storage: Storage
    rng: random.Random
    bins: int = 16
    workers: int = 2
    operators: tuple[str, ...] = ("count", "sessions")
    term: int = 1
    first: int = 0
    block_bytes: int = 200
    snapshots: list[SnapshotRef] = field(default_factory=list)
    manifest: int | None = None
    states: dict[int, dict[str, Rows]] = field(default_factory=dict)
    routes: dict[int, Route] = field(default_factory=dict)
    moves: list[tuple[int, int]] = field(default_factory=list)
    _parsed: dict[str, list[tuple[int, bytes, bytes | None]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index = Index.new(self.bins, self.operators)
        self.states[self.first - 1] = {operator: {} for operator in self.operators}

    def plan_moves(self, share: float) -> None:
        """Let some bins move with the next epoch, to any worker up to one more than before."""
        self.moves = [(b, self.rng.randrange(self.workers + 1)) for b in range(self.bins) if self.rng.random() < share]

    def next_record(self) -> CommitRecord:
        """Run the next epoch: write its deltas and make the record, which is not applied yet."""
        epoch = Epoch(self.first if self.index.empty else self.index.last + 1)
        if self.index.route is None:
            route = Route.initial(self.bins, [Worker(w) for w in range(self.workers)])
            changes = whole_route(route)
        else:
            before = self.index.route
            moves = [(b, w) for b, w in self.moves if before.owners[b] != w]
            bins = [b for b, _ in moves]
            listed = Moves(bins, before.owners[bins] if bins else [], [w for _, w in moves])
            route = before.moved(listed) if moves else before
            changes = route_changes(listed)
        self.moves = []
        self.routes[epoch] = route
        state = {operator: dict(rows) for operator, rows in self.states[epoch - 1].items()}
        workers = tuple(range(self.workers + 1))
        parts = tuple(self._part(epoch, o, Worker(w), route, state[o]) for o in self.operators for w in workers)
        self.states[epoch] = state
        accepted, self.snapshots = tuple(self.snapshots), []
        return CommitRecord(
            epoch=epoch,
            term=self.term,
            run=0,
            previous=self.index.tip,
            batch_time_ms=1000 * epoch,
            offsets_hash=f"hash{epoch}",
            route_version=route.version,
            moves=changes,
            workers=workers,
            parts=parts,
            snapshots=tuple(each for each in accepted if self.index.snapshot_trouble(each) is None),
            watermark_ms=900 * epoch,
            manifest=self.manifest,
        )

    def epoch(self) -> CommitRecord:
        """Run the next epoch and apply its record."""
        record = self.next_record()
        self.index = self.index.apply(record)
        return record

    def _part(self, epoch: Epoch, operator: str, worker: Worker, route: Route, state: Rows) -> Part:
        owned = route.bins_of(worker).array.tolist()
        changed: dict[tuple[int, bytes], bytes | None] = {}
        for _ in range(self.rng.randrange(4) if owned else 0):
            key = (self.rng.choice(owned), b"k%d" % self.rng.randrange(3))
            changed[key] = None if self.rng.random() < 0.3 else b"%d@%d" % (self.rng.randrange(99), epoch)
        for key, value in changed.items():
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value
        attempt = f"{self.term}.{epoch}.0.{operator}_{worker}"
        name = layout.delta_name(epoch, operator, worker, attempt)
        return Part(operator, worker, attempt, blocks.write_file(self.storage, name, batches_of(changed, self.rng)))

    def snapshot(self, share: float = 0.7) -> None:
        """Let a worker write a snapshot of a share of its bins at a recent epoch; the next record accepts it."""
        operator, worker = self.rng.choice(self.operators), Worker(self.rng.randrange(self.workers + 1))
        self._snapshot(operator, worker, self._recent(), share)

    def snapshot_all(self) -> None:
        """Let every worker write a snapshot of all its bins at the same recent epoch: a whole cycle at once."""
        epoch = self._recent()
        for operator in self.operators:
            for worker in range(self.workers + 1):
                self._snapshot(operator, Worker(worker), epoch, 1.0)

    def _recent(self) -> Epoch:
        return Epoch(self.rng.randint(max(self.index.base + 1, self.index.last - 3), self.index.last))

    def _snapshot(self, operator: str, worker: Worker, epoch: Epoch, share: float) -> None:
        stamp = self.index.stamp(operator, worker, epoch)
        bins = BinSet([b for b in self.routes[epoch].bins_of(worker) if self.rng.random() < share])
        if not bins or stamp is None:
            return
        rows = {key: value for key, value in self.states[epoch][operator].items() if key[0] in bins}
        name = layout.snapshot_name(epoch, operator, worker, stamp.attempt, self.rng.randrange(10**6))
        file = blocks.write_file(self.storage, name, batches_of(rows, None))
        held = [loads_of(rows, b) for b in bins if loads_of(rows, b)[0]]
        text = bin_sizes.pack([n for n, _ in held], [size for _, size in held])
        self.snapshots.append(SnapshotRef.of(operator, worker, stamp, bins, file, text))

    def rebuilt(self, plan: BringUp, have: Mapping[int, int]) -> Rows:
        """The result of a task that follows ``plan`` and has copies at ``have``."""
        rows = {
            key: value
            for b, epoch in have.items()
            if b in plan.bins and b not in plan.fresh
            for key, value in self.states[epoch][plan.operator].items()
            if key[0] == b
        }
        for part in plan.parts:
            for b, key, value in self._rows(part.file):
                if b in part.bins:
                    rows.pop((b, key), None)
                    if value is not None:
                        rows[b, key] = value
        return rows

    def _rows(self, file: FileRef) -> list[tuple[int, bytes, bytes | None]]:
        """A file's rows; parsed once, but the file must exist at every call."""
        if not self.storage.exists(file.name):
            raise LogFileMissing(file.name)
        if file.name not in self._parsed:
            batches = reading.read_all(self.storage, file)
            self._parsed[file.name] = [row for each in batches for row in zip(*each.to_pydict().values(), strict=True)]
        return self._parsed[file.name]

    def expected(self, operator: str, bins: BinSet, epoch: int) -> Rows:
        """The oracle's rows."""
        return {key: value for key, value in self.states[epoch][operator].items() if key[0] in bins}

    def random_bins(self) -> BinSet:
        """Any set of bins."""
        return BinSet([b for b in range(self.bins) if self.rng.random() < self.rng.choice((0.2, 0.9))])

    def random_have(self) -> dict[int, int]:
        """Copies of some bins at any epochs, including some older than the log and some newer than requested."""
        epochs = sorted(self.states)
        return {b: self.rng.choice(epochs) for b in range(self.bins) if self.rng.random() < 0.5}

    @property
    def last(self) -> Epoch:
        """The last recorded epoch."""
        return self.index.last if self.index.records else BEFORE_FIRST


def loads_of(rows: Rows, bin: int) -> tuple[int, int]:
    """The number of rows of ``bin``, and their bytes."""
    sizes = [4 + len(key) + len(value) for (b, key), value in rows.items() if b == bin]
    return len(sizes), sum(sizes)


def batches_of(rows: Mapping[tuple[int, bytes], bytes | None], rng: random.Random | None) -> list[entries.Entries]:
    """The rows as one sorted batch; with ``rng`` sometimes as two runs, the first with values that the second replaces."""
    ordered = sorted(rows.items())
    batch = entries.make([b for (b, _), _ in ordered], [k for (_, k), _ in ordered], [v for _, v in ordered])
    if rng is None or rng.random() < 0.5 or not ordered:
        return [batch]
    early = entries.make(batch.column(0), batch.column(1), [b"superseded"] * batch.num_rows)
    return [early, batch]
