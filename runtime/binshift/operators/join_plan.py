"""What becomes of the chunks of a join's lists in one epoch: rows leave, rows are appended, full chunks are sealed.

This module has the arithmetic of `binshift.operators.join_lists`, without state. It must never visit a chunk or a row in Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.binary import BoolArray
from binshift.operators.join_chunks import HEAD, Numbers, Rows, cut, decode, encode
from binshift.operators.session_rows import Int64s, runs

NO_ROWS: Int64s = np.empty(0, dtype=np.int64)
"""No positions."""


@dataclass(frozen=True)
class Chunks:
    """Chunks that were read, the head of a list last: list, number, whether it is stored, and the rows.

    ``numbers`` has the sealed chunks of the lists whose heads are among them.
    """

    list: Int64s
    number: Int64s
    stored: BoolArray
    rows: Rows
    numbers: Numbers

    def only(self, which: BoolArray) -> Chunks:
        """Some of them."""
        if which.all():
            return self
        place = np.cumsum(which) - 1
        rows = self.rows.take(np.flatnonzero(which[self.rows.chunk]))
        heads = self.list[which & (self.number == HEAD)]
        numbers = self.numbers.only(np.isin(self.numbers.list, heads))
        rows = rows.renumbered(place[rows.chunk])
        return Chunks(self.list[which], self.number[which], self.stored[which], rows, numbers)


def chunks_of(list: Int64s, number: Int64s, values: pa.BinaryArray) -> Chunks:
    """The chunks with these values; null is an absent head."""
    rows, numbers = decode(values)
    return Chunks(list, number, binary.valid(values), rows, Numbers(list[numbers.list], numbers.number))


def together(parts: tuple[Chunks, Chunks]) -> Chunks:
    """The chunks of both."""
    if not len(parts[0].list):
        return parts[1]
    list, number, stored = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("list", "number", "stored")
    )
    order = np.lexsort((number, number == HEAD, list))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    second = parts[1].rows.renumbered(parts[1].rows.chunk + len(parts[0].list))
    rows = Rows.concat([parts[0].rows, second])
    rows = rows.renumbered(place[rows.chunk])
    numbers = Numbers.concat([part.numbers for part in parts])
    return Chunks(list[order], number[order], stored[order], rows.take(np.argsort(rows.chunk, kind="stable")), numbers)


@dataclass(frozen=True)
class Plan:
    """Chunks after an epoch: first the ones read before, then new ones; rows ascend by chunk."""

    list: Int64s
    number: Int64s
    stored: BoolArray  # whether it was stored before
    changed: BoolArray  # whether the value differs
    rows: Rows
    numbers: Numbers


def plan_of(chunks: Chunks, stays: BoolArray, added: Rows, changed: BoolArray) -> Plan:
    """The chunks with the rows that stay and the added ones, which can fill new sealed chunks.

    ``chunks`` has the head of each list with added rows, and of each list whose sealed chunks can lose their last row.
    """
    heads = np.flatnonzero(chunks.number == HEAD)
    head = heads[np.searchsorted(chunks.list[heads], added.chunk)] if len(added.chunk) else NO_ROWS
    rows = Rows.concat([chunks.rows.take(np.flatnonzero(stays)), added.renumbered(head)])
    grows = np.zeros(len(chunks.list), dtype=np.bool_)
    grows[head] = True
    at = np.flatnonzero(grows[rows.chunk])
    at = at[np.argsort(rows.chunk[at], kind="stable")]
    piece = cut(rows.chunk[at], binary.lengths(rows.packed)[at])
    of = rows.chunk[at][runs(piece)]
    seals = np.append(of[1:] == of[:-1], np.zeros(min(len(of), 1), dtype=np.bool_))
    new = _numbered(chunks.numbers, chunks.list[of[seals]])
    chunk = rows.chunk.copy()
    chunk[at] = np.where(seals, len(chunks.list) + np.cumsum(seals) - 1, of)[piece]
    rows = rows.renumbered(chunk).take(np.argsort(chunk, kind="stable"))
    emptied = np.bincount(chunk, minlength=len(chunks.list))[: len(chunks.list)] == 0
    ends = emptied & (chunks.number != HEAD)
    left = chunks.numbers.only(~chunks.numbers.within(Numbers(chunks.list[ends], chunks.number[ends])))
    differs = (chunks.number == HEAD) & np.isin(chunks.list, np.concatenate((chunks.list[ends], new.list)))
    all_new = np.ones(len(new.list), dtype=np.bool_)
    return Plan(
        np.append(chunks.list, new.list),
        np.append(chunks.number, new.number),
        np.append(chunks.stored, ~all_new),
        np.append(changed | differs, all_new),
        rows,
        Numbers.concat([left, new]),
    )


def _numbered(numbers: Numbers, list: Int64s) -> Numbers:
    """Numbers of new sealed chunks of these lists, which ascend and can repeat."""
    first = runs(list)
    rank = np.arange(len(list)) - np.repeat(first, np.diff(np.append(first, len(list))))
    stop = np.searchsorted(numbers.list, list, side="right")
    known = stop > np.searchsorted(numbers.list, list)
    latest = np.append(numbers.number, HEAD)[np.where(known, stop - 1, -1)]
    return Numbers(list, latest + 1 + rank)


def values_of(plan: Plan, at: Int64s) -> pa.BinaryArray:
    """The values of some chunks."""
    place = np.full(len(plan.list), -1)
    place[at] = np.arange(len(at))
    rows = plan.rows.take(np.flatnonzero(place[plan.rows.chunk] >= 0))
    heads = np.flatnonzero(plan.number == HEAD)
    head = heads[np.searchsorted(plan.list[heads], plan.numbers.list)] if len(plan.numbers.list) else NO_ROWS
    which = place[head] >= 0
    numbers = Numbers(place[head][which], plan.numbers.number[which])
    return encode(len(at), rows.renumbered(place[rows.chunk]), numbers)
