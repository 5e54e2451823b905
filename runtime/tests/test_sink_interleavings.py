"""Several drivers publish one epoch, in every order of their steps: all rows are published exactly once."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import interleaved
import pytest
from hadoop_store import FakeStore
from interleaved import Walker, every_order

from binshift import failpoints
from binshift.log.records import outputs, terms
from binshift.log.storage.local_files import LocalStorage
from binshift.model import Epoch
from binshift.spark.sinks import FileSink, folders
from binshift.spark.sinks.manifest import FINISHED, parsed
from binshift.spark.sinks.spark_log import SPARK_LOG, SparkLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = 7
"""The epoch that all drivers publish."""
NAMES = "abc"


class Forgetful(LocalStorage):
    """A log on a file server whose clients cache missing files for a while: no driver sees the term of another."""

    def exists(self, name: str) -> bool:
        """Never."""
        return False


class World:
    """A directory of results, a log, and the output of runs of epochs.

    Args:
        folder: the parent of all files.
        staged: a directory with the output of each driver's run of each epoch.
        spark: the session.
        remote: whether results are on an object store, without an atomic rename.
        by_epoch: the layout, see `FileSink`.
    """

    def __init__(self, folder: Path, staged: Path, spark: SparkSession, remote: bool, by_epoch: bool) -> None:
        self.results, self.staged, self.spark, self.by_epoch = folder / "results", staged, spark, by_epoch
        self.results.mkdir(parents=True)
        if not by_epoch:
            shutil.copytree(staged / SPARK_LOG, self.results / SPARK_LOG)
        self.log = Forgetful(folder / "log", durable=False)
        self.remote = remote
        self.finished: dict[int, set[str]] = {}
        self.published = set[int]()

    def driver(self, name: str, epochs: int) -> Walker:
        """A driver that runs this many epochs from `FIRST` on; with 0, it runs the first in one step."""
        term = terms.take_term(self.log, name, name)
        sink = FileSink("parquet", str(self.results), ["n"], by_epoch=self.by_epoch)
        if self.remote:
            store = FakeStore(self.results)
            sink._opened = folders.Folders(self.spark, store, store.url)
            sink._opened._jvm = store

        def steps() -> None:
            for epoch in range(FIRST, FIRST + max(1, epochs)):
                folder = f"_staged-{epoch}-{name}"
                shutil.copytree(self.staged / folder, self.results / folder)
                for path in (self.results / folder).glob("part-*") if self.remote else ():
                    path.rename(path.with_name(f".{path.name}"))
                sink._staged = folder
                sink.publish(
                    self.spark,
                    epoch,
                    partial(outputs.choose, self.log, term, Epoch(epoch)),
                )
                self.published.add(epoch)

        return Walker(name, steps, at_one_go=not epochs)

    def check(self, history: Sequence[str]) -> None:
        """Visible files are of one run and never change once finished, and published epochs exist."""
        for epoch in range(FIRST, FIRST + 2):
            finished, seen = self._in_a_directory(epoch) if self.by_epoch else self._in_the_log(epoch)
            assert finished or epoch not in self.published, f"epoch {epoch} is lost by {history}"
            if not finished:
                assert epoch not in self.finished, f"epoch {epoch} is no longer finished by {history}"
                continue
            assert seen == finished, f"epoch {epoch} is mixed by {history}"
            assert self.finished.setdefault(epoch, seen) == seen, f"epoch {epoch} has changed by {history}"

    def _in_a_directory(self, epoch: int) -> tuple[set[str], set[str]]:
        """The files of an epoch once it is finished, and the files that readers see."""
        place = self.results / f"epoch={epoch}"
        seen = {path.name for path in place.rglob("*.parquet") if not path.name.startswith(".")}
        manifest = parsed((place / FINISHED).read_text()) if (place / FINISHED).exists() else None
        return set() if manifest is None else {name for _, name in manifest.files}, seen

    def _in_the_log(self, epoch: int) -> tuple[set[str], set[str]]:
        """The same; the files of unfinished epochs are not counted."""
        entry = self.results / SPARK_LOG / str(epoch)
        listed = [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]] if entry.exists() else []
        names = {path.rpartition("/")[2] for path in listed}
        runs = [parsed((self.staged / f"_staged-{epoch}-{name}" / FINISHED).read_text()) for name in NAMES]
        written = {name for run in runs if run is not None for _, name in run.files}
        return names, {path.name for path in self.results.glob("part-*.parquet")} & written


@pytest.fixture(scope="module")
def staged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of real runs: three drivers, two epochs, two files each."""
    place = tmp_path_factory.mktemp("staged")
    for name, epoch in itertools.product(NAMES, (FIRST, FIRST + 1)):
        sink = FileSink("parquet", str(place), ["n"])
        sink.write(spark.range(epoch, epoch + 4, 1, 2).toDF("n"), epoch)
        (place / sink._staged).rename(place / f"_staged-{epoch}-{name}")
        manifest = place / f"_staged-{epoch}-{name}" / FINISHED
        manifest.write_text(manifest.read_text().replace(sink._staged, f"_staged-{epoch}-{name}"))
    SparkLog(spark, str(place)).add(FIRST - 1, ())
    return place


@pytest.fixture
def begun(spark: SparkSession, staged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    """Creates worlds whose drivers stop at failpoints."""
    spark.range(1).count()
    monkeypatch.setattr(failpoints, "reached", interleaved.reached)
    monkeypatch.setattr(folders, "ThreadPoolExecutor", InTurn)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # slow, and power cuts are not simulated
    numbers = itertools.count()

    def make(remote: bool = False, by_epoch: bool = True) -> World:
        number = next(numbers)
        shutil.rmtree(tmp_path / str(number - 1), ignore_errors=True)
        return World(tmp_path / str(number), staged, spark, remote, by_epoch)

    return make


class InTurn:
    """Replaces a thread pool: one file after the other, in the driver's own thread."""

    def __init__(self, workers: int) -> None:
        pass

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    map = staticmethod(map)


def rows(world: World) -> list[tuple[int, int]]:
    """The rows of Spark's reader: epoch, which only directories have, and number."""
    read = world.spark.read.parquet(str(world.results)).collect()
    return sorted((row.epoch, row.n) if world.by_epoch else (FIRST, row.n) for row in read)


def played(
    begun: Callable[..., World],
    drivers: Sequence[tuple[str, int]],
    remote: bool = False,
    switches_max: int = 1000,
    by_epoch: bool = True,
) -> tuple[World, int]:
    """All orders of these drivers, each with its number of epochs; returns the last world and the number of orders."""
    worlds = list[World]()

    def begin() -> tuple[Sequence[Walker], Callable[[Sequence[str]], None]]:
        world = begun(remote, by_epoch)
        worlds[:] = [world]
        walkers = [world.driver(name, epochs) for name, epochs in drivers]

        def check(history: Sequence[str]) -> None:
            world.check(history)
            for each in walkers:
                if each.error is not None:
                    raise AssertionError(history) from each.error

        return walkers, check

    orders = every_order(begin, switches_max)
    return worlds[0], orders


TWO_DRIVERS = pytest.mark.parametrize(
    "drivers",
    [
        pytest.param((("a", 1), ("b", 1)), id="same epoch"),
        pytest.param((("a", 1), ("b", 2)), id="one continues", marks=pytest.mark.oracle),
    ],
)


@TWO_DRIVERS
def test_no_order_of_two_drivers_loses_or_doubles_rows(
    begun: Callable[..., World], drivers: Sequence[tuple[str, int]]
) -> None:
    """Neither learns of the other's term; published files stay complete and unchanged, wherever the other one resumes."""
    world, orders = played(begun, drivers)
    assert orders > 200
    last = FIRST + max(epochs for _, epochs in drivers)
    assert rows(world) == [(epoch, n) for epoch in range(FIRST, last) for n in range(epoch, epoch + 4)]


@pytest.mark.oracle
def test_a_third_driver_finds_an_epoch_published_wherever_two_have_stopped(begun: Callable[..., World]) -> None:
    """After any steps of two drivers, which may never resume, a replay publishes the epoch; they do no harm afterwards."""
    world, orders = played(begun, (("a", 1), ("b", 1), ("c", 0)))
    assert orders > 1000
    assert rows(world) == [(FIRST, n) for n in range(FIRST, FIRST + 4)]


@TWO_DRIVERS
def test_on_an_object_store_no_order_loses_or_doubles_rows(
    begun: Callable[..., World], drivers: Sequence[tuple[str, int]]
) -> None:
    """The same holds if a rename is a copy and a deletion, object by object, for all orders with at most two switches."""
    world, orders = played(begun, drivers, True, 2)
    assert orders > 100
    last = FIRST + max(epochs for _, epochs in drivers)
    assert rows(world) == [(epoch, n) for epoch in range(FIRST, last) for n in range(epoch, epoch + 4)]


@pytest.mark.parametrize("remote", [False, pytest.param(True, marks=pytest.mark.oracle)])
@TWO_DRIVERS
def test_no_order_of_two_drivers_makes_spark_read_rows_twice(
    begun: Callable[..., World], drivers: Sequence[tuple[str, int]], remote: bool
) -> None:
    """In the layout of Spark's sink, what its log lists is one run's, complete, and stays; other runs leave no files there."""
    world, orders = played(begun, drivers, remote, 2, by_epoch=False)
    assert orders > 50
    last = FIRST + max(epochs for _, epochs in drivers)
    assert rows(world) == sorted((FIRST, n) for epoch in range(FIRST, last) for n in range(epoch, epoch + 4))
