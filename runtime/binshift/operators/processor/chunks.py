"""The stored form of lists: headers, and chunks of elements with their expiries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from binshift import binary
from binshift.errors import LogDamaged
from binshift.operators.processor.variables import SCHEMA_VERSION, Tuple, columns_of, tuples_of
from binshift.rows import RowCodec

Element = tuple[Tuple, int]
"""A tuple and its expiry, milliseconds since 1970."""

_HEADER = np.dtype([(name, ">i8") for name in ("first", "next", "count", "last", "earliest")])
_VERSION = SCHEMA_VERSION.to_bytes(2, "big")


@dataclass(frozen=True)
class Header:
    """What is known of a list without reading it.

    Attributes:
        first: the number of its first chunk.
        next: the number of the chunk after its last one.
        count: its elements.
        last: the elements of its last chunk.
        earliest_ms: the earliest expiry of an element.
    """

    first: int
    next: int
    count: int
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
    return binary.rows_of(np.array([astuple(each) for each in headers], dtype=_HEADER))


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
        schema: of the elements, in Spark's inner form.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._element = pa.schema([("expiry", pa.int64()), *((f"c{at}", each.type) for at, each in enumerate(schema))])
        self._rows = RowCodec(pa.schema([("elements", pa.list_(pa.struct(list(self._element))))]), canonical=False)

    def pack(self, chunks: Sequence[Sequence[Element]]) -> pa.BinaryArray:
        """The stored form of each chunk."""
        rows = [(ends, *values) for chunk in chunks for values, ends in chunk]
        columns = columns_of(rows, self._element)
        elements = pa.StructArray.from_arrays(columns, fields=list(self._element))
        bounds = np.cumsum([0, *map(len, chunks)], dtype=np.int32)
        lists = pa.ListArray.from_arrays(pa.array(bounds), elements, type=self._rows.schema[0].type)
        versions = binary.of([_VERSION] * len(chunks))
        return binary.join([versions, self._rows.pack_columns([lists], len(chunks))])

    def unpack(self, stored: pa.BinaryArray) -> list[list[Element]]:
        """The elements of each chunk. Errors as `lists`."""
        lists = self.lists(stored)
        rows = tuples_of(lists.flatten().flatten(), len(lists.values))
        elements = [(row[1:], row[0]) for row in rows]
        ends = lists.offsets.to_pylist()
        return [elements[start:stop] for start, stop in pairwise(ends)]

    def lists(self, stored: pa.BinaryArray) -> pa.ListArray:
        """The elements of each chunk as structs: the expiry, and the columns.

        Raises:
            LogDamaged: a chunk is missing or has another form.
        """
        if stored.null_count:
            raise LogDamaged(f"{stored.null_count} chunks of lists are missing, to which their headers refer")
        bounds = binary.offsets(stored)
        starts, stops = bounds[:-1], bounds[1:]
        if any(
            head != _VERSION
            for head in binary.pieces(binary.data(stored), starts, np.minimum(starts + 2, stops)).to_pylist()
        ):
            raise LogDamaged(f"a list of a schema version other than {SCHEMA_VERSION}: a newer binshift has written it")
        return self._rows.unpack_columns(binary.pieces(binary.data(stored), starts + 2, stops))[0]
