"""Comparisons of state and output, and the error that a difference raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from binshift.model import BinSet
from binshift.store.bins.fenced_store import Reader
from simulator.flows import Packed, Row


class Contradiction(AssertionError):
    """The cluster is in a wrong state: a bug in binshift, or a flow that is not deterministic."""


def held_by(reader: Reader, bins: BinSet) -> Packed:
    """The rows of these bins in a store."""
    return {b: {key: value for _, key, value in rows_of(reader.scan(b))} for b in bins}


def rows_of(batches: Iterator[object]) -> Iterator[tuple[int, bytes, bytes]]:
    """Bin, key and value of each row."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)  # type: ignore[attr-defined]


def same(what: str, held: Packed, wanted: Packed, bins: BinSet | None = None) -> None:
    """Raise unless both hold the same rows of these bins (or of all)."""
    for b in sorted({*held, *wanted}) if bins is None else bins:
        found, right = held.get(b, {}), wanted.get(b, {})
        if found != right:
            lacks = {k: v for k, v in right.items() if found.get(k) != v}
            has = {k: v for k, v in found.items() if right.get(k) != v}
            raise Contradiction(f"{what}: bin {b} lacks {_some(lacks)} and has {_some(has)}")


def _some(rows: Mapping[bytes, bytes]) -> str:
    return ", ".join(f"{k!r}: {v!r}" for k, v in list(rows.items())[:3]) or "nothing"


def in_order(rows: Sequence[Row]) -> list[str]:
    """Rows in a form that does not depend on their order."""
    return sorted(repr(sorted(row.items())) for row in rows)


def unlike(these: list[str], those: list[str]) -> list[str]:
    """What these have and those have not, counted."""
    left = list(those)
    found = []
    for each in these:
        if each in left:
            left.remove(each)
        else:
            found.append(each)
    return found
