"""The log as drivers use it: opening, racing, falling back, forgetting, with real files on disk."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from log_worlds import DictStorage, World

from binshift.errors import (
    BinshiftError,
    Fenced,
    ForeignLog,
    IncompatibleState,
    InvalidSettings,
    LogDamaged,
    LogFileMissing,
    StorageUnavailable,
)
from binshift.invariants import InvariantViolated
from binshift.log import envelope, layout, terms
from binshift.log.formats import LogFormat, OperatorFormat
from binshift.log.log import GRACE_SECONDS, Log
from binshift.log.records import CommitRecord
from binshift.log.storage import Storage
from binshift.log.targets import Target
from binshift.model import Epoch, Term

COUNT = OperatorFormat("count", "f1", "count by user")
SESSIONS = OperatorFormat("sessions", "f2", "sessions by user")
FORMAT = LogFormat(bins=16, query="q-1", operators=(COUNT, SESSIONS))


class Driver:
    """A driver with its log, and a world that runs epochs for it."""

    def __init__(self, storage: Storage | None = None, seed: int = 1, states: World | None = None) -> None:
        self.storage = storage or DictStorage()
        self.log = Log.on(self.storage, FORMAT, who=f"host {seed}")
        self.world = World(self.storage, random.Random(seed), term=self.log.term)
        if states is not None:
            self.world.states, self.world.routes = dict(states.states), dict(states.routes)
        self.world.index = self.log.index
        self.world.manifest = self.log.index.manifests[-1] if self.log.index.manifests else None

    def epoch(self) -> CommitRecord:
        """Run the next epoch and append its record."""
        counts = self.log.append(self.world.next_record())
        self.world.index = self.log.index
        return counts

    def epochs(self, count: int) -> None:
        """Run many epochs, with moves and whole cycles of snapshots."""
        for _ in range(count):
            self.world.plan_moves(0.2)
            if self.world.index.records and self.world.rng.random() < 0.5:
                self.world.snapshot_all()
            self.epoch()

    def manifest(self) -> None:
        """Write a manifest; the next record names it."""
        self.log.write_manifest(self.log.index.last)
        self.world.manifest = self.log.index.last

    def successor(self) -> Driver:
        """The driver that comes after this one on the same log."""
        return Driver(self.storage, seed=self.log.term + 1, states=self.world)

    def check(self) -> None:
        """Every bin is rebuilt at the last epoch and at the one before."""
        index = self.log.index
        for operator in index.operators:
            for to in (index.last, max(index.last - 1, index.base)):
                plan = index.sources(operator, self.world.random_bins(), {}, Epoch(to))
                assert self.world.rebuilt(plan, {}) == self.world.expected(operator, plan.bins, to)


def files_of(driver: Driver) -> dict[str, bytes]:
    """Everything in the driver's storage."""
    assert isinstance(driver.storage, DictStorage)
    return driver.storage.files


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    """What one driver appended on disk, the next one has: route, records, state, and a higher term."""
    first = Driver(Log.open(str(tmp_path / "log"), {}, FORMAT).storage)
    first.epochs(6)
    second = Log.open((tmp_path / "log").as_uri(), {"durable": "false"}, FORMAT, spark_committed=Epoch(5))
    assert (second.term, second.index.last, second.warnings) == (first.log.term + 1, 5, ())
    assert second.index.record(Epoch(5)) == first.log.index.record(Epoch(5))
    assert second.index.route == first.log.index.route
    first.successor().check()


@pytest.mark.parametrize("damage", ["newest", "newest missing", "both", "none"])
def test_a_damaged_manifest_is_replaced(damage: str) -> None:
    """With the newest manifest damaged or gone, the one before and the records after it lead to the same index."""
    driver = Driver()
    for _ in range(3):
        driver.epochs(4)
        driver.manifest()
    driver.epochs(2)
    names = [each.name for each in driver.storage.list(layout.MANIFESTS)]
    assert [layout.parse(name)[1] for name in names] == [3, 7, 11]  # type: ignore[index]
    if damage == "newest missing":
        driver.storage.delete(names[-1:])
    elif damage != "none":
        for name in names if damage == "both" else names[-1:]:
            files_of(driver)[name] = files_of(driver)[name][:-1] + b"?"
    successor = driver.successor()
    assert successor.log.index.last == 13
    assert successor.log.index.record(Epoch(12)) == driver.log.index.record(Epoch(12))
    assert [name in warning for name, warning in zip(names[::-1], successor.log.warnings, strict=False)] == [True] * {
        "none": 0,
        "both": 3,
    }.get(damage, 1)
    successor.check()
    successor.epochs(3)
    successor.check()


def test_damaged_manifests_and_deleted_records_are_refused() -> None:
    """Once the records of the beginning are gone, losing all manifests is fatal, and the message names one."""
    driver = Driver()
    for _ in range(3):
        driver.epochs(3)
        driver.manifest()
    driver.epochs(1)
    driver.log.collect(spark_committed=Epoch(9), now=0)
    driver.log.collect(spark_committed=Epoch(9), now=GRACE_SECONDS)
    assert not driver.storage.exists(layout.record_name(Epoch(0)))
    driver.successor().check()
    for each in list(driver.storage.list(layout.MANIFESTS)):
        files_of(driver)[each.name] += b"!"
    with pytest.raises(LogDamaged, match=r"manifests/.*are gone"):
        driver.successor()


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below ``root``."""
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def _edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        (root / name).write_bytes(change((root / name).read_bytes()))

    return edit


def _replace_all(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()
    (root / "letter.txt").write_text("Dear all")


RECORD_2 = layout.record_name(Epoch(2))
REFUSALS: dict[str, tuple[type[BinshiftError], str, Callable[[Path], None]]] = {
    "altered record": (LogDamaged, RECORD_2, _edit(RECORD_2, lambda data: data.replace(b'"run":0', b'"run":1'))),
    "truncated record": (LogDamaged, RECORD_2, _edit(RECORD_2, lambda data: data[:50])),
    "missing record": (LogDamaged, RECORD_2, lambda root: (root / RECORD_2).unlink()),
    "last record": (LogDamaged, layout.record_name(Epoch(4)), lambda r: (r / layout.record_name(Epoch(4))).unlink()),
    "all records": (LogDamaged, "is missing", lambda root: shutil.rmtree(root / "records")),
    "altered format": (LogDamaged, layout.FORMAT, _edit(layout.FORMAT, lambda data: data + b" ")),
    "missing format": (LogDamaged, layout.FORMAT, lambda root: (root / layout.FORMAT).unlink()),
    "newer format": (
        ForeignLog,
        "format 2",
        _edit(layout.FORMAT, lambda _: envelope.encode("x", msgspec.structs.replace(FORMAT, format=2), 10**6)),
    ),
    "foreign files": (
        ForeignLog,
        "is not empty",
        _replace_all,
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_damaged_or_foreign_log_is_refused_and_left_alone(case: str, tmp_path: Path) -> None:
    """What cannot be used is named, and not one file is added, changed or removed."""
    driver = Driver(Log.open(str(tmp_path), {}, FORMAT).storage)
    driver.epochs(5)
    error, message, damage = REFUSALS[case]
    damage(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(error, match=message):
        Log.open(str(tmp_path), {}, FORMAT, spark_committed=Epoch(4))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({"bins": 32}, IncompatibleState, "made with 16 bins, the query asks for 32"),
        ({"query": "q-2"}, ForeignLog, "query q-1, not of q-2"),
        ({"operators": (COUNT,)}, IncompatibleState, "'sessions' .* which the query lacks"),
        ({"operators": (COUNT, SESSIONS, OperatorFormat("more", "f3"))}, IncompatibleState, "'more' .* lacks state"),
        (
            {"operators": (COUNT, OperatorFormat("sessions", "f9", "sessions by country"))},
            IncompatibleState,
            "sessions by user.*sessions by country",
        ),
        ({"bins": 12}, InvalidSettings, "power of two"),
        ({"operators": (COUNT, COUNT)}, InvalidSettings, "two stateful operators"),
    ],
)
def test_a_query_that_does_not_fit_is_refused(
    wanted: dict[str, object], error: type[BinshiftError], message: str, tmp_path: Path
) -> None:
    """Other bins, operators or another query are refused with the difference named, before anything is written."""
    Driver(Log.open(str(tmp_path), {}, FORMAT).storage).epochs(2)
    before = snapshot(tmp_path)
    with pytest.raises(error, match=message):
        Log.open(str(tmp_path), {}, msgspec.structs.replace(FORMAT, **wanted))
    assert snapshot(tmp_path) == before


def test_spark_and_the_log_must_belong_together() -> None:
    """A Spark checkpoint that is ahead of the log, or far behind it, is noticed; one epoch behind is a replay."""
    driver = Driver()
    driver.epochs(4)
    for committed in (2, 3):
        assert Log.on(driver.storage, FORMAT, spark_committed=Epoch(committed)).index.last == 3
    with pytest.raises(LogDamaged, match=layout.record_name(Epoch(4))):
        Log.on(driver.storage, FORMAT, spark_committed=Epoch(4))
    with pytest.raises(ForeignLog, match="do not belong together"):
        Log.on(driver.storage, FORMAT, spark_committed=Epoch(1))
    with pytest.raises(LogDamaged, match=layout.record_name(Epoch(0))):
        Log.on(DictStorage(), FORMAT, spark_committed=Epoch(0))


def test_a_replaced_driver_is_fenced_and_says_by_whom() -> None:
    """The older of two drivers loses the race for an epoch, and its next epoch too; the log stays the newer's."""
    old = Driver()
    old.epochs(2)
    lost = old.world.next_record()
    new = old.successor()
    won = new.epoch()
    with pytest.raises(Fenced, match=r"term 2 \(host 2\) has taken over"):
        old.log.append(lost)
    assert new.successor().log.index.record(Epoch(2)) == won


def test_a_replaced_driver_is_fenced_although_its_record_counts() -> None:
    """A driver that wins an epoch after a newer one has come stops; the newer one adopts the epoch."""
    old = Driver()
    old.epochs(2)
    new = old.successor()
    late = old.world.next_record()
    with pytest.raises(Fenced, match="term 2"):
        old.log.append(late)
    mine = new.world.next_record()
    assert new.log.append(mine) == late
    assert new.log.index.last == 2
    new.world.index, new.world.states = new.log.index, old.world.states
    new.check()
    new.epochs(3)
    new.check()


def test_a_record_from_the_grave_does_not_count() -> None:
    """A driver that slept while its epoch was recorded, superseded and forgotten is fenced all the same."""
    old = Driver()
    old.epochs(2)
    late = old.world.next_record()
    new = old.successor()
    for _ in range(3):
        new.epochs(4)
        new.manifest()
    new.epochs(1)
    new.log.collect(spark_committed=new.log.index.last, now=0)
    new.log.collect(spark_committed=new.log.index.last, now=GRACE_SECONDS)
    assert not new.storage.exists(layout.record_name(Epoch(2)))
    with pytest.raises(Fenced, match="term 2"):
        old.log.append(late)
    with pytest.raises(Fenced, match="term 2"):
        old.log.collect(spark_committed=Epoch(1), now=0)
    new.successor().check()


def test_the_same_append_again_is_one_append() -> None:
    """After a lost reply the driver appends the same record again and is told that it counts."""
    driver = Driver()
    driver.epochs(1)
    record = driver.world.next_record()
    before = driver.log._index
    assert driver.log.append(record) == record
    driver.log._index = before  # as if the reply had been lost
    assert driver.log.append(record) == record
    assert driver.log.index.last == 1


def test_an_earlier_run_whose_end_was_not_seen_counts() -> None:
    """If an epoch's record was written by an earlier run of the same driver, the later run adopts it."""
    driver = Driver()
    driver.epochs(1)
    first = driver.world.next_record()
    files_of(driver)[layout.record_name(Epoch(1))] = envelope.encode("x", first, 10**6)
    second = msgspec.structs.replace(first, run=1)
    assert driver.log.append(second) == first
    assert driver.log.index.record(Epoch(1)) == first


def test_a_misfit_is_never_written() -> None:
    """A record that does not follow is our mistake and reaches no file."""
    driver = Driver()
    driver.epochs(2)
    good = driver.world.next_record()
    for wrong in (
        msgspec.structs.replace(good, epoch=7),
        msgspec.structs.replace(good, parts=good.parts[1:]),
        msgspec.structs.replace(good, term=9),
    ):
        with pytest.raises(InvariantViolated):
            driver.log.append(wrong)
    assert [each.name for each in driver.storage.list(layout.RECORDS)] == [layout.record_name(Epoch(e)) for e in (0, 1)]


def test_terms_are_taken_one_by_one() -> None:
    """Each driver gets the next term, however many open at once, and a store without answer is not a term."""
    storage = DictStorage()
    assert [terms.take_term(storage, "x", f"n{i}") for i in range(3)] == [1, 2, 3]
    real = storage.list
    storage.list = lambda prefix: iter(list(real(prefix))[:1])  # type: ignore[method-assign]
    assert terms.take_term(storage, "late lister", "n9") == 4
    terms.check_newest(storage, Term(4))
    with pytest.raises(Fenced, match=r"term 4 \(late lister\)"):
        terms.check_newest(storage, Term(3))
    storage.put_if_absent = lambda name, data: False  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        terms.take_term(storage, "x", "n")


def test_two_drivers_may_create_the_same_log() -> None:
    """A log that another driver creates between looking and creating is used if it fits, and refused if not."""
    for other, fits in ((FORMAT, True), (msgspec.structs.replace(FORMAT, bins=32), False)):
        storage = DictStorage()

        def overtaken(
            name: str,
            data: bytes,
            other: LogFormat = other,
            storage: DictStorage = storage,
            real: Callable[[str, bytes], bool] = storage.put_if_absent,
        ) -> bool:
            if name == layout.FORMAT:
                storage.files[name] = envelope.encode(name, other, 10**6)
                return False
            return real(name, data)

        storage.put_if_absent = overtaken  # type: ignore[method-assign]
        if fits:
            assert Log.on(storage, FORMAT).term == 1
        else:
            with pytest.raises(IncompatibleState, match="32 bins"):
                Log.on(storage, FORMAT)


def test_loading_beside_a_living_driver_begins_again() -> None:
    """Records deleted between listing and reading are no damage if a second listing has moved on."""
    driver = Driver()
    for _ in range(2):
        driver.epochs(3)
        driver.manifest()
    storage = driver.storage
    assert isinstance(storage, DictStorage)
    real = storage.get
    taken: list[str] = []

    def get(name: str) -> bytes:
        if name.startswith(layout.MANIFESTS) and not taken:
            taken.append(name)
            driver.epochs(3)
            driver.manifest()
            driver.epochs(1)
            driver.log.collect(spark_committed=driver.log.index.last, now=0)
            driver.log.collect(spark_committed=driver.log.index.last, now=GRACE_SECONDS)
            storage.delete([name])
            raise LogFileMissing(f"{name} is not at {storage.url}")
        return real(name)

    storage.get = get  # type: ignore[method-assign]
    assert Log.on(storage, FORMAT).index.last == 9


def test_garbage_waits_for_its_grace() -> None:
    """Files go only when they were garbage for the whole grace period, seen from this driver's clock."""
    driver = Driver()
    driver.epochs(1)
    orphan = layout.delta_name(Epoch(0), "count", driver.log.index.route.workers[0], "1.0.7.dead")  # type: ignore[union-attr]
    partial = layout.PARTIAL + "abandoned"
    driver.storage.put(orphan, b"x")
    driver.storage.put(partial, b"x")
    driver.storage.put("notes.txt", b"not ours")
    assert driver.log.collect(spark_committed=Epoch(0), now=100).waiting == 2
    assert driver.log.collect(spark_committed=Epoch(0), now=99 + GRACE_SECONDS).deleted == ()
    assert driver.storage.exists(orphan)
    assert driver.log.collect(spark_committed=Epoch(0), now=100 + GRACE_SECONDS).deleted == (partial, orphan)
    assert not driver.storage.exists(orphan)
    assert driver.storage.exists("notes.txt")


@pytest.mark.parametrize("seed", range(6))
def test_the_log_stays_short_and_sufficient(seed: int) -> None:
    """Over many epochs, drivers, moves and collections every bin can be rebuilt, and old files really go."""
    driver = Driver(seed=seed)
    clock = 0.0
    for _ in range(6):
        driver.epochs(4)
        driver.manifest()
        driver.epochs(1)
        clock += GRACE_SECONDS
        driver.log.collect(spark_committed=driver.log.index.last, now=clock)
        driver.check()
        if driver.world.rng.random() < 0.4:
            driver = driver.successor()
            driver.check()
    clock += GRACE_SECONDS
    driver.log.collect(spark_committed=driver.log.index.last, now=clock)
    last = driver.log.collect(spark_committed=driver.log.index.last, now=clock + GRACE_SECONDS)
    numbers = {
        file.number for n in files_of(driver) if (file := layout.parse(n)) and file.kind in ("deltas", "snapshots")
    }
    assert min(numbers) >= last.floor
    records = [file.number for n in files_of(driver) if (file := layout.parse(n)) and file.kind == "records"]
    assert records == list(range(driver.log.index.manifests[0], driver.log.index.last + 1))


def test_targets_are_compared_and_set() -> None:
    """The newest target wins, a decision made for an older one fails, and damage is named."""
    log = Driver().log
    assert log.targets.newest() is None
    one = Target(owner="", generation=1, workers=(0, 1), strategy="batched", batch_size=64, pre_copy=True, nonce="a")
    two = msgspec.structs.replace(one, generation=2, nonce="b")
    assert log.targets.write(one, after=0)
    assert log.targets.write(one, after=0)  # the same request again, after a lost reply
    assert not log.targets.write(two, after=0)
    assert log.targets.write(two, after=1)
    assert log.targets.newest() == (2, two)
    assert not log.targets.write(one, after=0)
    log.storage.put(layout.target_name(2), b"{}")
    with pytest.raises(LogDamaged, match=layout.target_name(2)):
        log.targets.newest()
