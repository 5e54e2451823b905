"""Damage to the files of a log, and a log to damage.

A `History` is a small log with a file of every kind, the results of its epochs, and two more logs whose files have the same
names: another query's log, and the same log as it continued after an old copy had been restored. A `Damage` is one change to one
or two of its files, drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from log_drivers import FORMAT, Driver, files_of
from log_worlds import DictStorage, Rows

from binshift.log.files.reading import read_bins
from binshift.log.index import retention
from binshift.log.index.bringup import BringUp
from binshift.log.index.index import Index
from binshift.log.log import GRACE_SECONDS
from binshift.log.records.targets import Target
from binshift.log.storage import layout
from binshift.model import BinSet, Epoch

Files = dict[str, bytes]

OTHER = msgspec.structs.replace(FORMAT, query="q-other")


@dataclass
class History:
    """A log and its expected contents.

    Attributes:
        files: the log's files.
        other: the files of another query's log, with the same names.
        later: the files of the same log, continued from its middle in another way.
        driver: the driver whose worlds know the state of each epoch.
    """

    files: Files
    other: Files
    later: Files
    driver: Driver

    @property
    def last(self) -> Epoch:
        """The last epoch."""
        return self.driver.log.index.last

    @property
    def index(self) -> Index:
        """The index of a driver that has read the whole log."""
        return self.driver.log.index

    def wrong(self, storage: DictStorage, index: Index) -> str:
        """The difference from the truth at the last two epochs, if rebuilt from these files; empty if there is none.

        Raises:
            LogDamaged: something cannot be rebuilt.
        """
        last = self.index.last
        if index.last != last or index.record(last) != self.index.record(last) or index.route != self.index.route:
            return "the last record differs"
        for operator in FORMAT.operator_names:
            for to in (last, last - 1):
                plan = index.sources(operator, BinSet(range(FORMAT.bins)), {}, Epoch(to))
                if rebuilt(storage, plan) != self.driver.world.expected(operator, plan.bins, to):
                    return f"{operator} at epoch {to} differs"
        return ""


def rebuilt(storage: DictStorage, plan: BringUp) -> Rows:
    """The state rebuilt from the files of ``plan``, read as a worker reads them."""
    rows: Rows = {}
    for part in plan.parts:
        for batch in read_bins(storage, part.file, part.bins):
            for b, key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                rows.pop((b, key), None)
                if value is not None:
                    rows[b, key] = value
    return rows


def history(seed: int) -> History:
    """A log of three drivers with manifests, snapshots, moves, targets, and garbage collected."""
    driver = _grown(Driver(seed=seed, format=FORMAT), seed)
    middle = dict(files_of(driver))
    kept = driver.successor()
    _grow(kept, 5)
    storage = DictStorage()
    storage.files = dict(middle)
    other_way = Driver(storage, seed=seed + 1000, states=driver.world)
    _grow(other_way, 5)
    foreign = _grown(Driver(seed=seed, format=OTHER), seed)
    foreign = foreign.successor()
    _grow(foreign, 5)
    return History(files_of(kept), files_of(foreign), files_of(other_way), kept)


def _grown(driver: Driver, seed: int) -> Driver:
    _grow(driver, 4)
    driver = driver.successor()
    _grow(driver, 5)
    driver.log.collect(spark_committed=driver.log.index.last, now=0)
    driver.log.collect(spark_committed=driver.log.index.last, now=GRACE_SECONDS)
    return driver


def _grow(driver: Driver, epochs: int) -> None:
    for number in range(epochs):
        driver.epochs(1)
        if number % 3 == 0:
            driver.manifest()
    target = Target(
        owner="me", generation=driver.log.term, workers=(0, 1), strategy="fluid", batch_size=1, pre_copy=True
    )
    driver.log.targets.write(target, after=driver.log.targets.newest().number)


@dataclass
class Damage:
    """One damage.

    Attributes:
        act: one of `ACTS`.
        what: for messages.
        names: the damaged files.
    """

    act: str
    what: str
    names: tuple[str, ...]


Act = Callable[[random.Random, Files, str, History], tuple[str, ...]]


def _flip(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    data = bytearray(files[name])
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    files[name] = bytes(data)
    return (name,)


def _overwrite(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    data = files[name]
    start = rng.randrange(len(data))
    length = rng.randint(1, min(512, len(data) - start))
    filler = bytes(length) if rng.random() < 0.5 else rng.randbytes(length)
    files[name] = data[:start] + filler + data[start + length :]
    return (name,)


def _cut(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    files[name] = files[name][: rng.choice((0, 1, rng.randrange(len(files[name])), len(files[name]) - 1))]
    return (name,)


def _lengthen(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    files[name] = files[name] + rng.choice((b" ", b"\0", b"}", rng.randbytes(40)))
    return (name,)


def _delete(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    del files[name]
    return (name,)


def _swap(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    other = rng.choice([each for each in files if each != name])
    files[name], files[other] = files[other], files[name]
    return name, other


def _copy_over(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    folder = name.split("/")[0]
    files[name] = files[rng.choice([each for each in files if each.split("/")[0] == folder])]
    return (name,)


def _from_another_query(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    kind = [each for each in history.other if each.split("/")[0] == name.split("/")[0]]
    if kind:
        files[name] = history.other[name if name in history.other else rng.choice(kind)]
    return (name,)


def _from_another_time(rng: random.Random, files: Files, name: str, history: History) -> tuple[str, ...]:
    """A file of the log's other continuation, with a name that the log has, had, or never had."""
    names = sorted(history.later)
    chosen = name if name in history.later and rng.random() < 0.7 else rng.choice(names)
    files[chosen] = history.later[chosen]
    return (chosen,)


ACTS: dict[str, Act] = {
    "flipped": _flip,
    "overwritten": _overwrite,
    "cut": _cut,
    "lengthened": _lengthen,
    "deleted": _delete,
    "swapped": _swap,
    "copied over": _copy_over,
    "of another query": _from_another_query,
    "of another time": _from_another_time,
}


def damaged(history: History, seed: int) -> tuple[DictStorage, Damage]:
    """The files after one damage, and the damage."""
    rng = random.Random(seed)
    storage = DictStorage()
    storage.files = dict(history.files)
    # Kinds first: deltas are far more numerous than manifests.
    folder = rng.choice(sorted({name.split("/")[0] for name in history.files}))
    name = rng.choice([each for each in sorted(history.files) if each.split("/")[0] == folder])
    act = rng.choice(sorted(ACTS))
    names = ACTS[act](rng, storage.files, name, history)
    changed = tuple(each for each in names if storage.files.get(each) != history.files.get(each))
    return storage, Damage(act, f"{act}: {' and '.join(names)}", changed)


def matters(history: History, name: str, act: str) -> bool:
    """Whether the log guarantees that this file exists and is intact, and can detect the damage."""
    file = layout.parse(name)
    assert file is not None
    match file.kind:
        case "deltas" | "snapshots":
            floor = retention.floor(history.index, history.last)
            return name in retention.named_files(retention.trimmed(history.index, floor))
        case "records" if act == "deleted":
            # The manifest also covers the first of them; that a newer one existed only Spark knows.
            return history.index.manifests[0] < file.number < history.last
        case "records":
            return file.number >= history.index.manifests[0]
        case "manifests":
            return file.number in history.index.manifests
        case "targets" if act == "deleted":
            return 1 < file.number < history.driver.log.targets.newest().number
        case "targets" | "terms" if act.startswith("of another"):
            return False  # it is intact, has its number, and contains no state
        case _:
            return True
