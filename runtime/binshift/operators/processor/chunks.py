"""The stored form of lists: headers, and chunks of elements with their expiries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift import binary
from binshift.errors import LogDamaged
from binshift.model import IntArray
from binshift.operators.processor.variables import Tuple, columns_of, tuples_of
from binshift.operators.processor.versions import VERSION, by_version, in_order, project
from binshift.rows import RowCodec

_HEADER = np.dtype([(name, ">i8") for name in ("first", "next", "length", "last", "earliest")])


@dataclass(slots=True)
class Elements:
    """Elements of a list.

    Attributes:
        tuples: their values.
        ends_ms: the expiry of each, milliseconds since 1970.
    """

    tuples: list[Tuple] = field(default_factory=list)
    ends_ms: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tuples)

    def extend(self, others: Elements) -> None:
        """Add others at the end."""
        self.tuples += others.tuples
        self.ends_ms += others.ends_ms

    def part(self, start: int, stop: int) -> Elements:
        """Some that follow each other."""
        return Elements(self.tuples[start:stop], self.ends_ms[start:stop])

    def alive(self, time_ms: int) -> Elements:
        """All that end after this time."""
        alive = [ends > time_ms for ends in self.ends_ms]
        return Elements(list(compress(self.tuples, alive)), list(compress(self.ends_ms, alive)))


class Header(NamedTuple):
    """What is known of a list without reading it.

    Attributes:
        first: the number of its first chunk.
        next: the number of the chunk after its last one.
        length: the number of its elements.
        last: the elements of its last chunk.
        earliest_ms: the earliest expiry of an element.
    """

    first: int
    next: int
    length: int
    last: int
    earliest_ms: int

    @property
    def chunks(self) -> int:
        """How many chunks it has."""
        return self.next - self.first

    @property
    def numbers(self) -> range:
        """The numbers of its chunks."""
        return range(self.first, self.next)


def pack_headers(headers: Collection[Header]) -> pa.BinaryArray:
    """The stored form of headers."""
    return binary.rows_of(np.array(list(headers), dtype=_HEADER))


def unpack_headers(stored: pa.BinaryArray) -> dict[int, Header]:
    """The headers that are not null, by position.

    Raises:
        LogDamaged: no header has this form.
    """
    present = np.flatnonzero(binary.valid(stored)).tolist()
    content = binary.contiguous(stored.drop_null())
    if len(content) != _HEADER.itemsize * len(present):
        raise LogDamaged(f"headers of lists with {len(content)} bytes where each has {_HEADER.itemsize}")
    return {at: Header(*row) for at, row in zip(present, content.view(_HEADER).tolist(), strict=True)}


class ChunkCodec:
    """Packs chunks of elements, many at once: the version of the schema, and a packed list.

    Args:
        schemas: of the elements, in Spark's inner form; the last one is what is written, and read.
    """

    def __init__(self, schemas: Sequence[pa.Schema]) -> None:
        self._schemas = schemas
        self._elements = [
            pa.schema([("expiry", pa.int64()), *((f"c{at}", each.type) for at, each in enumerate(schema))])
            for schema in schemas
        ]
        self._codecs = [
            RowCodec(pa.schema([("elements", pa.list_(pa.struct(list(element))))]), canonical=False)
            for element in self._elements
        ]

    def pack(self, chunks: Sequence[Elements]) -> pa.BinaryArray:
        """The stored form of each chunk."""
        element, codec = self._elements[-1], self._codecs[-1]
        ends = pa.array(chain.from_iterable(chunk.ends_ms for chunk in chunks), pa.int64())
        tuples = list(chain.from_iterable(chunk.tuples for chunk in chunks))
        columns = [ends, *columns_of(tuples, self._schemas[-1])]
        elements = pa.StructArray.from_arrays(columns, fields=list(element))
        bounds = np.cumsum([0, *map(len, chunks)], dtype=np.int32)
        lists = pa.ListArray.from_arrays(pa.array(bounds), elements, type=codec.schema[0].type)
        versions = binary.of([len(self._codecs).to_bytes(VERSION.itemsize, "big")] * len(chunks))
        return binary.join([versions, codec.pack_columns([lists], len(chunks))])

    def unpack(self, stored: pa.BinaryArray) -> list[Elements]:
        """The elements of each chunk. Errors as `lists`."""
        lists = self.lists(stored)
        expiries, *columns = lists.flatten().flatten()
        elements = Elements(tuples_of(columns, len(expiries)), expiries.to_pylist())
        return [elements.part(start, stop) for start, stop in pairwise(lists.offsets.to_pylist())]

    def lists(self, stored: pa.BinaryArray) -> pa.ListArray:
        """The elements of each chunk as structs: the expiry, and the columns.

        Raises:
            LogDamaged: a chunk is missing or has another form.
        """
        bounds, versions = binary.offsets(stored), self._versions(stored)
        packed = binary.pieces(binary.data(stored), bounds[:-1] + VERSION.itemsize, bounds[1:])
        parts = [
            (places, [self._of_version(version, packed, places)])
            for version, places in by_version(versions, len(self._codecs))
        ]
        return in_order(parts)[0] if parts else self._codecs[-1].unpack_columns(packed)[0]

    def are_newest(self, stored: pa.BinaryArray) -> list[bool]:
        """Of each chunk whether the newest schema wrote it. Errors as `lists`."""
        found: list[bool] = (self._versions(stored) == len(self._codecs)).tolist()
        return found

    def _versions(self, stored: pa.BinaryArray) -> npt.NDArray[np.uint16]:
        if stored.null_count:
            raise LogDamaged(f"{stored.null_count} chunks of lists are missing, to which their headers refer")
        starts, width = binary.offsets(stored)[:-1], VERSION.itemsize
        if len(stored) and int(binary.lengths(stored).min()) < width:
            raise LogDamaged(f"a chunk of a list with less than {width} bytes")
        return binary.contiguous(binary.pieces(binary.data(stored), starts, starts + width)).view(VERSION)

    def _of_version(self, version: int, packed: pa.BinaryArray, places: IntArray) -> pa.ListArray:
        whole = len(places) == len(packed)
        lists = self._codecs[version - 1].unpack_columns(packed if whole else packed.take(pa.array(places)))[0]
        if version == len(self._codecs):
            return lists
        expiries, *columns = lists.flatten().flatten()
        found = project(columns, self._schemas[version - 1], self._schemas[-1], len(expiries))
        elements = pa.StructArray.from_arrays([expiries, *found], fields=list(self._elements[-1]))
        return pa.ListArray.from_arrays(lists.offsets, elements, type=self._codecs[-1].schema[0].type)
