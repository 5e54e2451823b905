"""Which keys take so many of an operator's records that more workers cannot help: from what tasks report to named keys.

A key is on one worker. It is *hot* if its records exceed half of a worker's fair share, which is all records of its operator by the
number of workers: with twice as many workers, its own would be above the mean. It is cool again below four tenths, so that a key
at the limit is not named and forgotten in turn.

Tasks report in some epochs (`binshift.engine.bin_records`) what their most frequent key had. Older reports count less with each new
one. Pure: reports are arguments; their order within an epoch does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from binshift.model import Bin, Worker

HOT: Final = 0.5
"""Part of a worker's fair share from which on a key is hot."""
COOL: Final = 0.4
"""Part of it below which a hot key is no longer hot."""
KEPT: Final = 0.8
"""What a report counts for after the next one: half after three."""
RECORDS_MIN: Final = 1_000
"""Counted records of a key below which it is not hot: its share means nothing."""
CANDIDATES_MAX: Final = 64
"""Keys remembered for each operator, those with most records."""
NAMED_MAX: Final = 8
"""Keys named at once, those with the largest shares."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The most frequent key of a worker in one epoch, by its records."""

    operator: str
    worker: Worker
    bin: Bin
    key: str
    records: int


@dataclass(frozen=True, slots=True)
class HotKey:
    """A hot key.

    Attributes:
        operator: of the query.
        key: as text, of bounded length. It is users' data.
        bin: where it was in the newest report.
        worker: likewise.
        share: of the operator's records.
        share_of_all: of the records of all operators.
    """

    operator: str
    key: str
    bin: Bin
    worker: Worker
    share: float
    share_of_all: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """A key's records, and where it was."""

    records: float
    bin: Bin
    worker: Worker


@dataclass
class HotKeys:
    """The hot keys of a query, as far as reported; lasts as long as its driver.

    Attributes:
        named: the hot keys, the largest share first. It is only ever replaced.
    """

    named: tuple[HotKey, ...] = ()
    _records: dict[str, float] = field(default_factory=dict)
    _seen: dict[tuple[str, str], _Seen] = field(default_factory=dict)

    def add(self, records: Mapping[str, int], candidates: Iterable[Candidate], workers: int) -> None:
        """The reports of one epoch.

        Args:
            records: of each operator, over all workers.
            candidates: of each task at most one.
            workers: that own bins.

        >>> keys = HotKeys()
        >>> keys.add({"op": 9_000}, [Candidate("op", Worker(1), Bin(7), "alice", 6_000)], workers=4)
        >>> [(each.key, each.worker, round(each.share, 2)) for each in keys.named]
        [('alice', 1, 0.67)]
        """
        known = self._records.keys() | records.keys()
        self._records = {name: KEPT * self._records.get(name, 0.0) + records.get(name, 0) for name in known}
        seen = {name: _Seen(KEPT * each.records, each.bin, each.worker) for name, each in self._seen.items()}
        # A key of several windows is on several workers: it is where it has most records.
        for each in sorted(candidates, key=lambda found: (found.records, found.worker, found.bin)):
            name = each.operator, each.key
            before = seen[name].records if name in seen else 0.0
            seen[name] = _Seen(before + each.records, each.bin, each.worker)
        self._seen = _most_frequent(seen)
        self.named = self._hot(workers)

    def shares(self) -> Mapping[str, float]:
        """For each operator the largest share of a hot key; 0 without one."""
        found = dict.fromkeys(sorted(self._records), 0.0)
        return found | {each.operator: each.share for each in reversed(self.named)}

    def _hot(self, workers: int) -> tuple[HotKey, ...]:
        hot = {(each.operator, each.key) for each in self.named}
        everything = sum(self._records.values())
        found = []
        for (operator, key), seen in self._seen.items():
            share = seen.records / self._records[operator] if self._records[operator] else 0.0
            least = (COOL if (operator, key) in hot else HOT) / workers
            if share >= least and seen.records >= RECORDS_MIN:
                of_all = seen.records / everything
                found.append(HotKey(operator, key, seen.bin, seen.worker, share, of_all))
        # Of keys with about the same share, those named already stay so.
        lead = dict.fromkeys(hot, HOT / COOL)
        found.sort(key=lambda each: (-each.share * lead.get((each.operator, each.key), 1.0), each.operator, each.key))
        return tuple(sorted(found[:NAMED_MAX], key=lambda each: (-each.share, each.operator, each.key)))


def _most_frequent(seen: Mapping[tuple[str, str], _Seen]) -> dict[tuple[str, str], _Seen]:
    """The keys to remember, `CANDIDATES_MAX` for each operator."""
    found = dict[tuple[str, str], _Seen]()
    counts = dict[str, int]()
    for name, each in sorted(seen.items(), key=lambda item: (-item[1].records, item[0])):
        counts[name[0]] = counts.get(name[0], 0) + 1
        if counts[name[0]] <= CANDIDATES_MAX and each.records >= 1:
            found[name] = each
    return found
