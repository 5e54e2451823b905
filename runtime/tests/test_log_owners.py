"""The owner of a log: another dataflow is rejected while the first is alive, and takes over once it has ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_drivers import Driver
from log_worlds import DictStorage

from binshift.errors import Fenced, LogOwned
from binshift.log.index import retention
from binshift.log.records import owners
from binshift.log.records.owners import Heartbeat, await_release
from binshift.log.storage import layout
from binshift.log.tools import verification
from binshift.model import Epoch
from simulator.clock import ManualClock


def claimed(storage: DictStorage, owner: str, meanwhile: Callable[[float], None] = lambda now: None) -> float:
    """Seconds that the claim has waited; ``meanwhile`` is called with the time at each check."""
    clock = ManualClock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        meanwhile(clock())

    await_release(storage, owner, clock, sleep)
    return clock()


def beating(driver: Driver, owner: str = "a") -> Heartbeat:
    """The driver's heartbeat, which was written once and has no thread."""
    beat = Heartbeat(driver.storage, owner, driver.log.term)
    beat.once()
    return beat


def test_a_log_without_an_owner_is_anybodys() -> None:
    """Logs from before there were owners, and those of programs without one, cause no wait."""
    driver = Driver()
    Heartbeat(driver.storage, "", driver.log.term).start().stop()
    assert isinstance(driver.storage, DictStorage)
    assert layout.OWNER not in driver.storage.files
    assert claimed(driver.storage, "b") == 0


@pytest.mark.parametrize("newcomer", ["b", ""])
def test_another_owner_is_refused_while_the_first_lives(newcomer: str) -> None:
    """The first renewal that the newcomer sees is sufficient; the message names the owner and the fix."""
    driver = Driver()
    beat = beating(driver)
    assert isinstance(driver.storage, DictStorage)
    before = dict(driver.storage.files)
    with pytest.raises(
        LogOwned, match=r"belongs to dataflow a, which is running \(driver term 1\).*another checkpoint"
    ):
        claimed(driver.storage, newcomer, lambda now: beat.once() if now >= owners.BEAT_SECONDS else None)
    assert {name for name, data in driver.storage.files.items() if before.get(name) != data} == {layout.OWNER}


def test_the_same_owner_never_waits() -> None:
    """A restarted driver is fenced against its predecessor by its term, at once."""
    driver = Driver()
    beating(driver)
    assert isinstance(driver.storage, DictStorage)
    assert claimed(driver.storage, "a") == 0


def test_an_owner_that_was_killed_is_gone_after_some_beats() -> None:
    """Without a renewal for several heartbeats, another owner takes over."""
    driver = Driver()
    beating(driver)
    assert isinstance(driver.storage, DictStorage)
    assert claimed(driver.storage, "b") == pytest.approx(owners.WATCH_SECONDS, abs=owners.LOOK_SECONDS)


def test_an_owner_that_ends_in_order_is_gone_at_once() -> None:
    """Its file and its thread are removed; another owner that is waiting continues."""
    driver = Driver()
    assert isinstance(driver.storage, DictStorage)
    beat = Heartbeat(driver.storage, "a", driver.log.term).start()
    assert owners.read(driver.storage) is not None
    assert claimed(driver.storage, "b", lambda now: beat.stop()) == owners.LOOK_SECONDS
    beat.stop()
    assert claimed(driver.storage, "b") == 0


def test_a_driver_that_was_replaced_renews_nothing_and_removes_nothing() -> None:
    """The file then belongs to its successor."""
    driver = Driver()
    old = Heartbeat(driver.storage, "a", driver.log.term).start()
    new = beating(driver.successor(), "b")
    with pytest.raises(Fenced):
        old.once()
    old.stop()
    found = owners.read(driver.storage)
    assert found is not None
    assert (found.owner, found.term) == ("b", 2)
    new.once()


def test_a_damaged_file_names_no_owner() -> None:
    """It does not block another owner, and `verify` reports that it is damaged."""
    driver = Driver()
    driver.epoch()
    beating(driver)
    assert isinstance(driver.storage, DictStorage)
    assert verification.verify(driver.storage) == []
    driver.storage.files[layout.OWNER] = b"{}"
    assert claimed(driver.storage, "b") == 0
    assert [(each.fault, each.name) for each in verification.verify(driver.storage)] == [("damaged", layout.OWNER)]


def test_retention_leaves_the_owners_file_alone() -> None:
    """It is not garbage, however old the log is."""
    driver = Driver()
    driver.epochs(3)
    assert retention.garbage(driver.log.index, [layout.OWNER], Epoch(2), driver.log.term) == []
