"""Random faults of the disk below log and stores of a query whose bins move; every epoch's output equals the reference."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from disk_query import DiskQuery, disk_query
from faulty_disk import FaultyDisk, faulty_disk
from pyspark.sql import SparkSession

ERRORS = ("EIO", "ESTALE", "ENOSPC", "EACCES", "ETIMEDOUT")
CALLS = (
    *("getattr", "readdir", "create", "open", "read", "write", "fsync", "fsyncdir", "truncate", "link", "rename"),
    *("unlink", "mkdir", "rmdir", "link, done", "rename, done", "create, done", "unlink, done"),
)
FAULTS = 14
HISTORIES = max(1, int(os.environ.get("BINSHIFT_CLUSTER_HISTORIES", "24")) // 3)
"""The number of histories; each takes about a minute and a half."""


class History:
    """A query on one faulty disk, disturbed with a seed."""

    def __init__(self, chance: random.Random, disk: FaultyDisk, subject: DiskQuery, events: list[object]) -> None:
        self.chance = chance
        self.disk = disk
        self.subject = subject
        self.events = events

    def go_on(self) -> None:
        """Two more epochs; the query is restarted if the last fault has ended it."""
        query = self.subject.query
        try:
            query.await_epoch(query.epoch + 2, 120)
        except TimeoutError:
            raise
        except Exception as error:  # any error: it is kept
            self.events.append(error)
            query.abort()
            query = self.subject.start()
            query.await_epoch(query.epoch + 2, 120)

    def hurt(self) -> None:
        """One to four kinds of call fail for up to three seconds."""
        fault = (self.chance.choice(ERRORS), *self.chance.sample(CALLS, self.chance.randint(1, 4)))
        self.events.append((self.subject.query.epoch, fault))
        self.disk.refuse(*fault)
        time.sleep(self.chance.uniform(0.5, 3))  # the duration is the random input, not a wait for a condition
        self.disk.repair()


@pytest.mark.cluster
@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_disk_history(seed: int, session: SparkSession, tmp_path: Path) -> None:
    """Bins move meanwhile; an ended query is restarted on the same checkpoint."""
    events = list[object]([seed])
    with faulty_disk(tmp_path / "faulty") as disk:
        log, store = disk.path / "log", disk.path / "store"
        with disk_query(session, log, store, disk.repair, events) as subject:
            history = History(random.Random(seed), disk, subject, events)
            try:
                for number in range(FAULTS):
                    history.go_on()
                    subject.query.rescale(2 + number % 2, batch_size=4)
                    history.hurt()
                history.go_on()
            except Exception as error:
                raise AssertionError(f"seed {seed} after {events}: {error}") from error
