"""The log as drivers use it: opening, racing, falling back, trimming, with real files on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from log_drivers import FORMAT, Driver, files_of

from binshift.errors import (
    LogDamaged,
)
from binshift.invariants import InvariantViolated
from binshift.log.index import retention
from binshift.log.log import GRACE_SECONDS, Log
from binshift.log.records.targets import Target
from binshift.log.storage import layout
from binshift.model import Epoch


def test_a_restart_finds_everything(tmp_path: Path) -> None:
    """The next driver has everything that one driver appended on disk: route, records, state, and a higher term."""
    first = Driver(Log.open(str(tmp_path / "log"), {}, FORMAT).storage)
    first.epochs(6)
    second = Log.open((tmp_path / "log").as_uri(), {"durable": "false"}, FORMAT, spark_committed=lambda: Epoch(5))
    assert (second.term, second.index.last, second.warnings) == (first.log.term + 1, 5, ())
    assert second.index.record(Epoch(5)) == first.log.index.record(Epoch(5))
    assert second.index.route == first.log.index.route
    first.successor().check()


@pytest.mark.parametrize("damage", ["newest", "newest missing", "both", "none"])
def test_a_damaged_manifest_is_replaced(damage: str) -> None:
    """With the newest manifest damaged or missing, the previous one and the records after it give the same index."""
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


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_a_manifest_replaces_the_record_it_ends_with(damage: str) -> None:
    """A record that was lost after a manifest of its epoch was written is in that manifest; a warning names it."""
    driver = Driver()
    driver.epochs(5)
    driver.manifest()
    name = layout.record_name(Epoch(4))
    if damage == "missing":
        driver.storage.delete([name])
    else:
        files_of(driver)[name] += b" "
    successor = driver.successor()
    assert successor.log.index.record(Epoch(4)) == driver.log.index.record(Epoch(4))
    assert [name in warning for warning in successor.log.warnings] == [True]
    successor.check()
    successor.epochs(2)
    successor.check()


def test_damaged_manifests_and_deleted_records_are_refused() -> None:
    """Once the first records are deleted, losing all manifests is fatal, and the message names one."""
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


def test_a_misfit_is_never_written() -> None:
    """A record that does not follow the last one is a bug and reaches no file."""
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


def test_garbage_waits_for_its_grace() -> None:
    """Files are deleted only when they were garbage for the whole grace period, by this driver's clock."""
    driver = Driver()
    driver.epochs(1)
    orphan = layout.delta_name(Epoch(0), "count", driver.log.index.route.workers[0], "1.0.7.dead")  # type: ignore[union-attr]
    partial = layout.PARTIAL + "abandoned"
    driver.storage.put(orphan, b"x")
    driver.storage.put(partial, b"x")
    driver.storage.put("notes.txt", b"not ours")
    there = set(files_of(driver))
    assert {partial, orphan, "notes.txt"} <= there
    driver.log.collect(spark_committed=Epoch(0), now=100)
    driver.log.collect(spark_committed=Epoch(0), now=99 + GRACE_SECONDS)
    assert set(files_of(driver)) == there
    driver.log.collect(spark_committed=Epoch(0), now=100 + GRACE_SECONDS)
    assert there - set(files_of(driver)) == {partial, orphan}


@pytest.mark.parametrize("seed", range(6))
def test_the_log_stays_short_and_sufficient(seed: int) -> None:
    """Over many epochs, drivers, moves and collections every bin can be rebuilt (I4), and old files are deleted (I7)."""
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
    driver.log.collect(spark_committed=driver.log.index.last, now=clock + GRACE_SECONDS)
    numbers = {
        file.number for n in files_of(driver) if (file := layout.parse(n)) and file.kind in ("deltas", "snapshots")
    }
    assert min(numbers) >= retention.floor(driver.log.index, driver.log.index.last)
    records = [file.number for n in files_of(driver) if (file := layout.parse(n)) and file.kind == "records"]
    assert records == list(range(driver.log.index.manifests[0], driver.log.index.last + 1))


def test_targets_are_compared_and_set() -> None:
    """The newest target wins, a decision based on an older one fails, and a damaged one is replaced by the next."""
    log = Driver().log
    assert log.targets.newest() == (0, None)
    one = Target(owner="", generation=1, workers=(0, 1), strategy="batched", batch_size=64, pre_copy=True, nonce="a")
    two = msgspec.structs.replace(one, generation=2, nonce="b")
    assert log.targets.write(one, after=0)
    assert log.targets.write(one, after=0)  # the same request again, after a lost response
    assert not log.targets.write(two, after=0)
    assert log.targets.write(two, after=1)
    assert log.targets.newest() == (2, two)
    assert not log.targets.write(one, after=0)
    log.storage.put(layout.target_name(2), b"{}")
    assert log.targets.newest() == (2, None)
    with pytest.raises(LogDamaged, match=f"{layout.target_name(2)} .*set the target again"):
        log.targets.read(2)
    assert log.targets.write(two, after=2)
    assert log.targets.newest() == (3, two)
