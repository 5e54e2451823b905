"""Checks a simulated cluster: the invariants, stated a second time, independently of the protocol.

The *truth* is in the records: the deltas that they name, applied in order to dictionaries. Everything else is compared with
it: each store's bins and copies, at any moment (I2); the owners in the newest epoch (I1); the state rebuilt from the log alone
(I4). If the flow is deterministic, the truth itself and every delivery to the sink are compared with the reference (I3, I5).

It reads files and disks directly, without faults, and never changes anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from binshift.log.files.reading import read_all
from binshift.log.index import loading
from binshift.log.index.bringup import BringUp
from binshift.log.index.index import Index
from binshift.log.records.commits import CommitRecord, FileRef, decode_record
from binshift.log.storage.layout import record_name
from binshift.model import BEFORE_FIRST, GENESIS, BinSet, Epoch, Fence, Stamp, Term, Worker
from binshift.store.bins.binstore import BinStore
from binshift.store.bins.fenced_store import Reader
from binshift.store.bins.status import Status
from binshift.store.engine.memory_store import MemoryStore
from binshift.worker.bring_up import bring_up
from simulator.comparing import Contradiction, held_by, in_order, rows_of, same, unlike
from simulator.flows import Packed, Row
from simulator.joinflow import Held
from simulator.reference import GraphReference
from simulator.stream import Batch, Outputs
from simulator.world import World

LOAD_EVERY_EPOCHS = 4
"""How often the log is read again to check that it is complete; otherwise the driver's index is used."""


class Witness:
    """See the module.

    Attributes:
        references: by flow.
        records: all records, in order.
        owners: by epoch, the worker of each bin.
        spoiled: files of the log that were damaged on purpose and are not checked.
    """

    def __init__(self, world: World, deterministic: bool) -> None:
        self._world = world
        self._deterministic = deterministic
        self._reference = GraphReference(world.graph)
        self.references = self._reference.references
        self.records: list[CommitRecord] = []
        self.owners: list[list[int]] = []
        self.spoiled: frozenset[str] = frozenset()
        self._expected: list[dict[str, list[Row]]] = []
        self._images: dict[str, list[Packed | None]] = {name: [] for name in world.flows}
        self._held: dict[str, list[Held | None]] = {name: [] for name in world.flows}
        self._truth: dict[str, list[Packed]] = {name: [] for name in world.flows}
        self._contents: dict[str, tuple[bytes, Packed]] = {}
        world.stream.watch = self._delivered

    # ------------------------------------------------------------------------------------------- expectations

    def expect(self, batch: Batch) -> None:
        """Run the references on the next batch."""
        self._expected.append(self._reference.epoch(batch.rows))
        for name, reference in self.references.items():
            self._images[name].append(self._world.flows[name].packed(reference.state, self._world.bins))
            self._held[name].append(reference.held())

    def _delivered(self, epoch: Epoch, outputs: Outputs) -> None:
        """Check that every delivery of an epoch is the same."""
        for name, wanted in self._expected[epoch].items():
            if self._deterministic and (found := in_order(outputs[name])) != in_order(wanted):
                missing, extra = unlike(in_order(wanted), found), unlike(found, in_order(wanted))
                raise Contradiction(f"I5: epoch {epoch} of {name} lacks {missing[:5]} and has {extra[:5]} instead")

    def image(self, name: str, epoch: int) -> Packed:
        """The recorded state of a flow after an epoch."""
        return {} if epoch < 0 else self._truth[name][epoch]

    # ------------------------------------------------------------------------------------------- the log's truth

    def read_log(self) -> None:
        """Read the new records and check them."""
        while True:
            epoch = Epoch(len(self.records))
            name = record_name(epoch)
            if not self._world.files.exists(name):
                return
            record = decode_record(name, self._world.files.get(name))
            self._take_in(record)
            for flow in self._world.flows:
                self._compare_with_reference(flow, epoch)

    def _take_in(self, record: CommitRecord) -> None:
        owners = list(self.owners[-1]) if self.owners else [-1] * self._world.bins
        for assignment in record.moves:
            for b in assignment.bins:
                owners[b] = assignment.worker
        if -1 in owners:
            raise Contradiction(f"I1: bin {owners.index(-1)} has no owner in epoch {record.epoch}")
        taken = {(part.operator, part.worker) for part in record.parts}
        if lacking := {(name, worker) for name in self._world.flows for worker in record.workers} - taken:
            raise Contradiction(f"I3: record {record.epoch} has no state of {sorted(lacking)}")
        self.records.append(record)
        self.owners.append(owners)
        for name in self._world.flows:
            self._truth[name].append(self._applied(record, name, owners))
        for snapshot in record.snapshots:
            named = self._stamps(snapshot.operator, Epoch(snapshot.epoch)).get(Worker(snapshot.worker))
            if snapshot.stamp != named:
                raise Contradiction(
                    f"I2: record {record.epoch} takes a snapshot of {snapshot.stamp}, recorded is {named}"
                )

    def _applied(self, record: CommitRecord, name: str, owners: list[int]) -> Packed:
        image = dict(self.image(name, record.epoch - 1))
        for part in record.parts:
            if part.operator == name and part.delta is not None:
                for bin, key, value in rows_of(read_all(self._world.files, part.delta)):
                    if owners[bin] != part.worker:
                        raise Contradiction(f"I1: worker {part.worker} changed bin {bin} of {owners[bin]}")
                    if image.get(bin) is self.image(name, record.epoch - 1).get(bin):
                        image[bin] = dict(image.get(bin, {}))
                    if value is None:
                        image[bin].pop(key, None)
                    else:
                        image[bin][key] = value
        return image

    def _compare_with_reference(self, name: str, epoch: Epoch) -> None:
        what, wanted = f"I5: {name} as recorded for epoch {epoch}", self._images[name][epoch]
        if self._deterministic and wanted is not None:
            same(what, self.image(name, epoch), wanted)
        held = self._held[name][epoch]
        if self._deterministic and held is not None and (wrong := held.unlike(self.image(name, epoch))):
            raise Contradiction(f"{what}: {wrong}")

    def _stamps(self, name: str, epoch: Epoch) -> Mapping[Worker, Stamp]:
        if epoch <= BEFORE_FIRST or epoch >= len(self.records):
            return {}
        return {Worker(p.worker): Stamp(epoch, p.attempt) for p in self.records[epoch].parts if p.operator == name}

    # ------------------------------------------------------------------------------------------- checks

    def check_epoch(self, epoch: Epoch, index: Index | None = None) -> None:
        """Check after ``epoch``: it is recorded, its owners hold it, and the log alone can rebuild it.

        ``index`` is the driver's; from time to time, and if it is not given, the log is read again instead.
        """
        self.check_stores()
        if epoch >= len(self.records):
            raise Contradiction(f"I3: Spark has committed epoch {epoch}; the last record is {len(self.records) - 1}")
        if epoch == len(self.records) - 1:
            self._check_owners(epoch)
            self.check_log(None if epoch % LOAD_EVERY_EPOCHS == 0 else index)

    def check_stores(self) -> None:
        """Check that every state in a store was recorded, perhaps before Spark's commit, or may be for the running epoch."""
        self.read_log()
        for worker, machine in self._world.machines.items():
            for name in self._world.flows:
                with machine.open_unfaulted(name).reader() as reader:
                    self._check_store(f"{name} on worker {worker}", name, worker, reader)
                    if self._world.calm and not self._world.faults.struck:
                        self._check_kept(f"{name} on worker {worker}", worker, reader.status)

    def _check_store(self, what: str, name: str, worker: Worker, reader: Reader) -> None:
        status = reader.status
        for epoch in sorted(set(status.copies.values())):
            bins = BinSet([b for b, at in status.copies.items() if at == epoch])
            if epoch >= len(self.records):
                raise Contradiction(f"I2: {what} has copies at epoch {epoch}, which is not recorded")
            same(f"I2: {what}, copies at epoch {epoch}", held_by(reader, bins), self.image(name, epoch), bins)
        if not status.owned:
            return
        epoch = status.stamp.epoch
        if self._stamps(name, epoch).get(worker) == status.stamp:
            wanted = self.image(name, epoch)
        elif (
            status.stamp == GENESIS
            or epoch >= len(self._images[name])
            or not self._deterministic
            or (expected := self._images[name][epoch]) is None
        ):
            return
        else:
            wanted = expected
        same(f"I2: {what} at {status.stamp}", held_by(reader, status.owned), wanted, status.owned)

    def _check_kept(self, what: str, worker: Worker, status: Status) -> None:
        """Check that a source keeps the bins it gave away until one more record exists: the epoch of the flip may be replayed."""
        if len(self.owners) < 2:
            return
        before, now = self.owners[-2:]
        given = BinSet([b for b in range(self._world.bins) if before[b] == worker != now[b]])
        if gone := given - status.visible:
            raise Contradiction(f"{what} has already dropped {gone}, which moved away in epoch {len(self.owners) - 1}")

    def _check_owners(self, epoch: Epoch) -> None:
        """Check that the workers of the newest epoch own exactly the bins of its route, in the state of its record.

        Stores that are lost, away or not committed yet do not count: they are brought up to date when they are needed.
        """
        for name in self._world.flows:
            for worker, stamp in self._stamps(name, epoch).items():
                machine = self._world.machines[worker]
                if not machine.alive or name in machine.emptied | machine.uncommitted:
                    continue
                status = machine.open_unfaulted(name).status()
                owned = BinSet([b for b, owner in enumerate(self.owners[epoch]) if owner == worker])
                if status.stamp != stamp or status.owned != owned:
                    raise Contradiction(
                        f"I1: {name} on worker {worker} is at {status.stamp} with {status.owned}; "
                        f"the record has {stamp} and {owned}"
                    )

    def check_log(self, index: Index | None = None) -> None:
        """Check that the files that the log names for every bin give its state at the newest epoch and at the previous one."""
        for name, epoch, plan in self._bring_ups(index):
            found: Packed = {}
            for part in plan.parts:
                content = self._content(part.file)
                for b in part.bins:
                    found.setdefault(b, {}).update(content.get(b, {}))
            rows = {b: {key: value for key, value in some.items() if value is not None} for b, some in found.items()}
            built = plan.bins - plan.lost_bins
            same(f"I4: {name} at epoch {epoch}, by the files the log names", rows, self.image(name, epoch), built)

    def rebuild(self) -> None:
        """Check the same with binshift's own bring-up, into an empty store."""
        for name, epoch, plan in self._bring_ups(None):
            bins = plan.bins - plan.lost_bins
            store = BinStore(MemoryStore(), self._world.bins)
            bring_up(store, self._world.files, Fence(Term(1), epoch, 0), bins, epoch, plan)
            with store.reader() as reader:
                missing = bins - reader.status.visible
                if missing:
                    raise Contradiction(f"I4: {name} cannot be rebuilt at epoch {epoch}: {missing} are missing")
                same(f"I4: {name} rebuilt at epoch {epoch}", held_by(reader, bins), self.image(name, epoch))

    def _bring_ups(self, index: Index | None) -> Iterator[tuple[str, Epoch, BringUp]]:
        """The files that the log names for every bin of every flow at the newest epoch and at the previous one."""
        if not self.records:
            return
        if index is None:
            index = loading.load(self._world.files, self._world.format).index
        if index.last != len(self.records) - 1:
            raise Contradiction(f"I3: the log loads up to epoch {index.last} of {len(self.records) - 1}")
        index = replace(index, unusable=index.unusable | self.spoiled)
        bins = BinSet(range(self._world.bins))
        for name in self._world.flows:
            for epoch in {index.last, Epoch(max(index.last - 1, index.base))}:
                plan = index.sources_or_lost(name, bins, {}, epoch)
                if not self.spoiled:
                    plan.check_not_lost(bins)
                yield name, epoch, plan

    def _content(self, file: FileRef) -> Mapping[int, dict[bytes, bytes]]:
        """A file's rows, read once while it is unchanged."""
        data = self._world.files.get(file.name)
        held = self._contents.get(file.name)
        if held is None or held[0] != data:
            rows: Packed = {}
            for bin, key, value in rows_of(read_all(self._world.files, file)):
                rows.setdefault(bin, {})[key] = value
            held = self._contents[file.name] = (data, rows)
        return held[1]
