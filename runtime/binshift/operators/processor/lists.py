"""A variable with a list for each key: chunks of elements, and a header that knows where they are.

An append rewrites the last chunk, if it has room, and the header; nothing else of the list is read. Short lists are read for many keys
at once, when the first of them is needed; long ones in steps, so that they need not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from binshift.operators.contract import STATE_SPACE
from binshift.operators.processor.chunks import ChunkCodec, Elements, Header, pack_headers, unpack_headers
from binshift.operators.processor.keygroup import NO_KEYS, KeyGroup, Turn
from binshift.operators.processor.layout import HEADER_SPACE, index_keys, numbered, variable_keys, with_rest
from binshift.operators.processor.variables import NEVER_MS, Tuple, Variable
from binshift.operators.processor.view import EpochView

CHUNK_ELEMENTS = 64
SHORT_CHUNKS = 8
"""Lists of at most so many chunks are read together with those of the keys that follow."""
CHUNKS_AT_ONCE = 4096

NO_HEADER = Header(0, 0, 0, 0, NEVER_MS)

_Place = tuple[int, int]
"""A key's position, and the number of a chunk."""


@dataclass
class _Change:
    """What a key's list becomes: what it was, unless it is replaced, and then these elements."""

    replaces: bool
    elements: Elements = field(default_factory=Elements)


class Lists:
    """The lists of a group of keys; changes are written at once by `flush`.

    Args:
        variable: which one.
        view: the epoch's state.
        turn: the key whose turn it is.

    Attributes:
        convert: brings tuples to the form in which they are stored; what is in that form stays as it is. Many are converted at once.
    """

    def __init__(self, variable: Variable, view: EpochView, turn: Turn) -> None:
        self.variable = variable
        self.convert: Callable[[list[Tuple]], list[Tuple]] = list
        self._view = view
        self._turn = turn
        self._codec = ChunkCodec(variable.schemas)
        self._group = NO_KEYS
        self._headers: dict[int, Header] | None = None
        self._read: dict[int, Elements] = {}
        self._changed: dict[int, _Change] = {}

    def bind(self, group: KeyGroup) -> None:
        """Work on another group; the changes of the one before are written."""
        self._group, self._headers, self._read = group, None, {}

    def get(self) -> Iterator[Tuple]:
        """The elements as they are now, that have not outlived their time to live."""
        at, now = self._turn.at, self._turn.time_ms
        change = self._changed.get(at)
        if change is None:
            return self._elements(at, now)
        added = self.convert(change.elements.alive(now).tuples)
        return iter(added) if change.replaces else chain(self._elements(at, now), added)

    def exists(self) -> bool:
        """Whether there is an element."""
        if self.variable.ttl_ms is not None:
            return next(self.get(), None) is not None
        change = self._changed.get(self._turn.at)
        if change is not None and (change.replaces or len(change.elements)):
            return bool(len(change.elements))
        return self._turn.at in self._stored_headers()

    def append(self, elements: list[Tuple]) -> None:
        """Add elements at the end."""
        self._changed.setdefault(self._turn.at, _Change(replaces=False)).elements.extend(self._expiring(elements))

    def replace(self, elements: list[Tuple]) -> None:
        """Make these the elements; none deletes the list."""
        self._changed[self._turn.at] = _Change(True, self._expiring(elements))

    def restore(self, elements: Elements) -> None:
        """Make these the elements, each with its own end."""
        self._changed[self._turn.at] = _Change(True, elements)

    def end_elements(self) -> None:
        """Delete the elements that have outlived their time to live, in the lists of the whole group."""
        for at in range(len(self._group)):
            kept = Elements()
            for part in self._parts(at):
                kept.extend(part.alive(self._turn.time_ms))
            self._changed[at] = _Change(True, kept)

    def flush(self) -> None:
        """Write the group's changes."""
        if not self._changed:
            return
        stored = self._stored_headers()
        headers = {at: stored[at] for at in self._changed if at in stored}
        replaced = {at: headers[at] for at, change in self._changed.items() if change.replaces and at in headers}
        kept = {at: header for at, header in headers.items() if at not in replaced}
        new = self._write({at: change for at, change in self._changed.items() if len(change.elements)}, kept)
        self._delete_rest(replaced, new)
        self._reindex(headers, new)
        self._changed = {}

    def _expiring(self, elements: list[Tuple]) -> Elements:
        ttl = self.variable.ttl_ms
        ends = NEVER_MS if ttl is None else self._turn.time_ms + ttl
        return Elements(elements, [ends] * len(elements))

    # ------------------------------------------------------------------------------------------------------- reading

    def _elements(self, at: int, now: int) -> Iterator[Tuple]:
        """The stored elements of a key that end after this time."""
        return chain.from_iterable(part.alive(now).tuples for part in self._parts(at))

    def _parts(self, at: int) -> Iterator[Elements]:
        """The stored elements of a key."""
        header = self._stored_headers().get(at)
        if header is None:
            return iter(())
        if at not in self._read and header.chunks <= SHORT_CHUNKS:
            self._read_short(at)
        return iter((self._read[at],)) if at in self._read else self._long(at, header)

    def _read_short(self, first: int) -> None:
        """Read the list of a key, and those of the keys that follow."""
        headers = self._stored_headers()
        short = [(at, headers[at]) for at in range(first, len(self._group)) if at in headers and at not in self._read]
        wanted = ((at, number) for at, header in short if header.chunks <= SHORT_CHUNKS for number in header.numbers)
        places = list(islice(wanted, CHUNKS_AT_ONCE))
        if len(places) == CHUNKS_AT_ONCE:  # the last list may lack chunks
            last = places[-1][0]
            places = [place for place in places if place[0] != last or last == first]
        for (at, _), elements in zip(places, self._chunks(places), strict=True):
            self._read.setdefault(at, Elements()).extend(elements)

    def _long(self, at: int, header: Header) -> Iterator[Elements]:
        for start in range(header.first, header.next, CHUNK_ELEMENTS):
            numbers = range(start, min(start + CHUNK_ELEMENTS, header.next))
            yield from self._chunks([(at, number) for number in numbers])

    def _chunks(self, places: list[_Place]) -> list[Elements]:
        return self._codec.unpack(self._view.get(self._group.bins_of(places), self._chunk_keys(places)))

    def _stored_headers(self) -> dict[int, Header]:
        if self._headers is None:
            group = self._group
            found = self._view.get(group.bins, variable_keys(HEADER_SPACE, self.variable.number, group.sized))
            self._headers = unpack_headers(found)
        return self._headers

    # ------------------------------------------------------------------------------------------------------- writing

    def _delete_rest(self, replaced: dict[int, Header], new: dict[int, Header]) -> None:
        """Delete chunks and headers of replaced lists that were not written again."""
        gone = {at: header for at, header in replaced.items() if at not in new}
        chunks = [
            (at, number)
            for at, header in replaced.items()
            for number in header.numbers
            if at in gone or number not in new[at].numbers
        ]
        self._view.delete(self._group.bins_of(chunks), self._chunk_keys(chunks))
        self._view.delete(self._bins_at(gone), self._keys_at(HEADER_SPACE, gone))

    def _write(self, changes: dict[int, _Change], kept: dict[int, Header]) -> dict[int, Header]:
        """Write chunks and headers; returns the headers."""
        tails = self._tails(
            [(at, kept[at].next - 1) for at in changes if at in kept and kept[at].last < CHUNK_ELEMENTS]
        )
        places, chunks, headers = list[_Place](), list[Elements](), dict[int, Header]()
        for at, change in self._converted(changes).items():
            header = kept.get(at, NO_HEADER)
            number, elements, tail = header.next, change, tails.get(at)
            if tail is not None:
                number -= 1
                elements = Elements([*tail.tuples, *change.tuples], [*tail.ends_ms, *change.ends_ms])
            for start in range(0, len(elements), CHUNK_ELEMENTS):
                places.append((at, number))
                chunks.append(elements.part(start, start + CHUNK_ELEMENTS))
                number += 1
            earliest = min(header.earliest_ms, min(change.ends_ms))
            headers[at] = Header(header.first, number, header.length + len(change), len(chunks[-1]), earliest)
        self._view.put(self._group.bins_of(places), self._chunk_keys(places), self._codec.pack(chunks))
        self._view.put(self._bins_at(headers), self._keys_at(HEADER_SPACE, headers), pack_headers(headers.values()))
        return headers

    def _converted(self, changes: dict[int, _Change]) -> dict[int, Elements]:
        """The new elements by key, all converted at once."""
        tuples = iter(self.convert(list(chain.from_iterable(change.elements.tuples for change in changes.values()))))
        return {
            at: Elements(list(islice(tuples, len(change.elements))), change.elements.ends_ms)
            for at, change in changes.items()
        }

    def _tails(self, places: list[_Place]) -> dict[int, Elements]:
        """By key the elements of its last chunk, which is written again. One that an older schema wrote stays as it is."""
        if not places:
            return {}
        stored = self._view.get(self._group.bins_of(places), self._chunk_keys(places))
        found = zip(places, self._codec.are_newest(stored), self._codec.unpack(stored), strict=True)
        return {at: elements for (at, _), is_newest, elements in found if is_newest}

    def _reindex(self, before: dict[int, Header], after: dict[int, Header]) -> None:
        """The index row of a list, by its earliest element."""
        if self.variable.ttl_ms is None:
            return
        for headers, others, value in ((before, after, None), (after, before, b"")):
            moved = {
                at: header
                for at, header in headers.items()
                if at not in others or others[at].earliest_ms != header.earliest_ms
            }
            times = pa.array([header.earliest_ms for header in moved.values()], pa.int64())
            keys = index_keys(times, self._keys_at(STATE_SPACE, moved))
            self._view.put(self._bins_at(moved), keys, pa.repeat(pa.scalar(value, pa.binary()), len(moved)))

    def _bins_at(self, headers: dict[int, Header]) -> np.ndarray:
        return self._group.bins_at(np.fromiter(headers, dtype=np.int32, count=len(headers)))

    def _keys_at(self, space: bytes, headers: dict[int, Header]) -> pa.BinaryArray:
        keys = self._group.sized.take(pa.array(list(headers), pa.int32()))
        return variable_keys(space, self.variable.number, keys)

    def _chunk_keys(self, places: list[_Place]) -> pa.BinaryArray:
        keys = self._group.sized.take(pa.array([at for at, _ in places], pa.int32()))
        numbers = numbered(pa.array([number for _, number in places], pa.int64()))
        return variable_keys(STATE_SPACE, self.variable.number, with_rest(keys, numbers))
