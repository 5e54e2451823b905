"""Several drivers on one log: one counts, the others are fenced, and no epoch is lost or recorded twice."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pytest
from log_drivers import FORMAT, Driver, files_of
from log_worlds import DictStorage

from binshift.errors import (
    Fenced,
    IncompatibleState,
    LogFileMissing,
    StorageUnavailable,
)
from binshift.log.log import GRACE_SECONDS, Log
from binshift.log.records import envelope, terms
from binshift.log.records.envelope import named_digest
from binshift.log.records.formats import LogFormat
from binshift.log.storage import layout
from binshift.model import Epoch, Term


def test_a_replaced_driver_is_fenced_and_names_the_newer_one() -> None:
    """The older of two drivers loses the race for an epoch, and its next epoch too; the log stays the newer's (I3)."""
    old = Driver()
    old.epochs(2)
    lost = old.world.next_record()
    new = old.successor()
    won = new.epoch()
    with pytest.raises(Fenced, match=r"term 2 \(host 2\) has taken over"):
        old.log.append(lost)
    assert new.successor().log.index.record(Epoch(2)) == won


def test_a_replaced_driver_is_fenced_although_its_record_counts() -> None:
    """A driver that wins an epoch after a newer one has started stops; the newer one adopts the epoch."""
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
    """A driver that was suspended while its epoch was recorded, superseded and trimmed is fenced nevertheless."""
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
    """After a lost response the driver appends the same record again and learns that it counts."""
    driver = Driver()
    driver.epochs(1)
    record = driver.world.next_record()
    before = driver.log._index
    assert driver.log.append(record) == record
    driver.log._index = before  # as if the response had been lost
    assert driver.log.append(record) == record
    assert driver.log.index.last == 1


def test_an_earlier_run_whose_end_was_not_seen_counts() -> None:
    """If an earlier run of the same driver has written an epoch's record, the later run adopts it."""
    driver = Driver()
    driver.epochs(1)
    first = driver.world.next_record()
    files_of(driver)[layout.record_name(Epoch(1))] = envelope.encode(layout.record_name(Epoch(1)), first, 10**6)
    second = msgspec.structs.replace(first, run=1)
    assert driver.log.append(second) == first
    assert driver.log.index.record(Epoch(1)) == first


def test_terms_are_taken_one_by_one() -> None:
    """Each driver gets the next term, however many open at once, and an error of the storage does not take a term."""
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


def test_a_term_whose_file_is_lost_is_not_taken_twice() -> None:
    """Otherwise an attempt id could name two states: records and later deltas prove the term, and gaps are filled."""
    driver = Driver()
    driver.epochs(2)
    second = driver.successor()
    second.epochs(1)
    third = second.successor()
    third.world.next_record()  # its deltas exist, its record does not
    driver.storage.delete([layout.term_name(Term(term)) for term in (1, 2, 3)])
    fourth = third.successor()
    assert fourth.log.term == 4
    assert [each.name for each in driver.storage.list(layout.TERMS)] == [layout.term_name(Term(n)) for n in range(1, 5)]
    with pytest.raises(Fenced):
        terms.check_newest(driver.storage, Term(1))


def test_a_log_of_format_2_is_carried_on() -> None:
    """This version reads the log of an earlier binshift's driver as its own."""
    old = Driver()
    old.epochs(10)
    old.manifest()
    old.epochs(10)
    files = files_of(old)
    for name in [each for each in files if each.endswith(".json")]:
        text = json.dumps(json.loads(files[name]) | {"format": 2}, separators=(",", ":"))
        body = text.partition(",")[2].encode()
        files[name] = b'{"checksum":"' + named_digest(name, body).encode() + b'",' + body
    new = old.successor()
    assert new.log.index.record(Epoch(19)).format == 2
    new.check()
    new.epochs(10)
    new.check()
    new.successor().check()


def test_two_drivers_may_create_the_same_log() -> None:
    """A log that another driver creates between the check and the creation is used if it fits, and rejected if not."""
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


def test_loading_during_a_live_driver_begins_again() -> None:
    """Records deleted between listing and reading are not damage if a second listing has advanced."""
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
