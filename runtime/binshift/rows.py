"""The row codec: converts a batch of typed columns to one byte string per row, and back.

Keys and state values are opaque bytes everywhere below the operators; this module produces them. A packed row is

    null bits | fixed part: each column's bytes, or the length of its bytes | the variable columns' bytes

little-endian, in the order of the schema; structs are flattened in place with their own null bit. The form is canonical:
rows are equal if and only if their bytes are, because null slots are zeros and (unless a codec is made with
``canonical=False``) -0.0 is stored as 0.0 and every NaN as the same one, which is how Spark groups.

Strings are bytes, as in Spark: they need not be UTF-8, and a string that is not is returned unchanged.

It must never use pickle, process rows one at a time, or crash on damaged bytes: bytes that do not fit the schema raise
`LogDamaged`. The bytes contain no schema; stores and log record `RowCodec.fingerprint` once.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift import binary
from binshift.binary import BoolArray
from binshift.errors import LogDamaged
from binshift.invariants import invariant
from binshift.rowslots import FixedSlot, StructSlot, VariableSlot, as_lists, element_of, slots_of


class RowCodec:
    """Packs and unpacks batches of one schema.

    Args:
        schema: the columns. All types that Spark sends as Arrow are supported, including nested ones.
        canonical: normalise -0.0 and NaN. Required for keys; pass False for values that must be restored bit by bit.

    Raises:
        Unsupported: a type that Spark does not send (unions, views, dictionaries); the message names it.

    >>> codec = RowCodec(pa.schema([("id", pa.int64()), ("name", pa.string())]))
    >>> rows = codec.pack(pa.record_batch([[1, None], ["a", "b"]], schema=codec.schema))
    >>> codec.unpack(rows).to_pylist()
    [{'id': 1, 'name': 'a'}, {'id': None, 'name': 'b'}]
    """

    def __init__(self, schema: pa.Schema, *, canonical: bool = True) -> None:
        self.schema = schema

        def codec_of(element: pa.DataType) -> RowCodec:
            return RowCodec(pa.schema([("element", element)]), canonical=canonical)

        fields = [slots_of(field.type, field.name, canonical, codec_of) for field in schema]
        self._slots = tuple(itertools.chain.from_iterable(fields))
        nulls = (len(self._slots) + 7) // 8
        parts = [(f"{at}", slot.dtype) for at, slot in enumerate(self._slots) if slot.dtype is not None]
        self._dtype = np.dtype([("nulls", np.dtype((np.uint8, (nulls,)))), *parts])

    @property
    def fingerprint(self) -> str:
        """32 hex digits that change with any column's name, order or type, and with the packed form itself."""
        described = "binshift rows 1\n" + "\n".join(f"{field.name!r}: {field.type}" for field in self.schema)
        return hashlib.blake2b(described.encode(), digest_size=16).hexdigest()

    @property
    def fixed_bytes(self) -> int | None:
        """Bytes of every row if all columns have a fixed width, else None."""
        return None if any(isinstance(slot, VariableSlot) for slot in self._slots) else self._dtype.itemsize

    def pack(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        """One byte string per row, in the order of the batch; never null.

        Raises:
            InvariantViolated: the batch's column types differ from the codec's.
            StateTooLarge: the batch packs to more than 2 GiB.
        """
        invariant(batch.schema.types == self.schema.types, f"packing {batch.schema.types} as {self.schema.types}")
        return self.pack_columns(batch.columns, batch.num_rows)

    def pack_columns(self, columns: Sequence[pa.Array], rows: int) -> pa.BinaryArray:
        """`pack` for columns without a batch."""
        fixed = np.zeros(rows, dtype=self._dtype)
        nulls = np.zeros((rows, len(self._slots)), dtype=np.bool_)
        tails: list[pa.BinaryArray] = []
        for at, (slot, array) in enumerate(zip(self._slots, _flatten(columns), strict=True)):
            present = binary.valid(array)
            nulls[:, at] = ~present
            if isinstance(slot, FixedSlot):
                fixed[f"{at}"] = slot.values(array, present)
            elif isinstance(slot, VariableSlot):
                tails.append(slot.encode(array, present))
                fixed[f"{at}"] = binary.lengths(tails[-1])
        fixed["nulls"] = np.packbits(nulls, axis=1, bitorder="little")
        return binary.join([binary.rows_of(fixed), *tails])

    def unpack(self, rows: pa.BinaryArray) -> pa.RecordBatch:
        """The batch that was packed. A null row (an absent state) has null in every column.

        Raises:
            LogDamaged: no batch of this schema packs to these bytes.
        """
        columns = self.unpack_columns(rows.fill_null(self._absent) if rows.null_count else rows)
        whole = pa.struct(list(self.schema))
        # Through a struct, because a batch without columns still has a number of rows.
        struct = pa.Array.from_buffers(whole, len(rows), [None], children=columns)
        return pa.RecordBatch.from_struct_array(struct).replace_schema_metadata(self.schema.metadata)

    def unpack_columns(self, rows: pa.BinaryArray) -> list[pa.Array]:
        """`unpack` for rows without nulls, as columns without a batch."""
        bounds, width = binary.offsets(rows), self._dtype.itemsize
        starts, stops = bounds[:-1], bounds[1:]
        if len(rows) and int((stops - starts).min()) < width:
            raise self._damaged(f"a row of {int((stops - starts).min())} bytes where at least {width} are required")
        fixed = self._fixed_part(rows, starts)
        nulls = np.unpackbits(fixed["nulls"], axis=1, bitorder="little").astype(np.bool_)
        ends = starts + width
        arrays: list[pa.Array] = []
        for at, slot in enumerate(self._slots):
            present = ~nulls[:, at]
            if isinstance(slot, FixedSlot):
                arrays.append(slot.decode(fixed[f"{at}"], present))
            elif isinstance(slot, VariableSlot):
                begins, ends = ends, ends + fixed[f"{at}"].astype(np.int64)
                if (ends > stops).any():
                    raise self._damaged(f"column {slot.name!r} reaches beyond the end of its row")
                arrays.append(slot.restore(binary.pieces(binary.data(rows), begins, ends), present))
            else:
                arrays.append(pa.array(present) if isinstance(slot, StructSlot) else pa.nulls(len(rows)))
        if (ends != stops).any():
            raise self._damaged("a row has bytes that belong to no column")
        flat = iter(arrays)
        return [_nest(field.type, flat) for field in self.schema]

    def _fixed_part(self, rows: pa.BinaryArray, starts: binary.Offsets) -> npt.NDArray[np.void]:
        width = self._dtype.itemsize
        if not width:
            return np.zeros(len(rows), dtype=self._dtype)
        whole = rows if self.fixed_bytes is not None else binary.pieces(binary.data(rows), starts, starts + width)
        content = binary.contiguous(whole)
        if len(content) != width * len(rows):
            raise self._damaged(f"rows of {len(content)} bytes together where {width} each are required")
        found: npt.NDArray[np.void] = content.view(self._dtype)
        return found

    @functools.cached_property
    def _absent(self) -> bytes:
        """The row with null in every column."""
        nothing = [pa.nulls(1, field.type) for field in self.schema]
        row: bytes = self.pack_columns(nothing, 1)[0].as_py()
        return row

    def _damaged(self, what: str) -> LogDamaged:
        return LogDamaged(
            f"packed state does not fit its schema ({', '.join(self.schema.names)}): {what}. It was altered, or "
            "written with another schema; discard the local store, or compare the log's fingerprint with the query's"
        )


def of_type(array: pa.Array, type: pa.DataType) -> pa.Array:
    """The array in another Arrow type for the same values.

    The types of one Spark column differ between plans and sessions: in which nested fields are never null, and in the
    width of the offsets of strings (``spark.sql.execution.arrow.useLargeVarTypes``). Unlike `pyarrow.Array.cast`, this
    accepts a null struct whose fields are declared never null.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit ``type``.
        pyarrow.ArrowNotImplementedError: the types are not convertible.
    """
    if array.type == type:
        return array
    if array.type.id != type.id or not pa.types.is_nested(type) or _names(array.type) != _names(type):
        return array.cast(type)
    if pa.types.is_struct(type):
        buffers, parts = [], [of_type(array.field(at), field.type) for at, field in enumerate(type)]
    else:
        buffers = [pa.py_buffer(array.offsets.to_numpy())]
        parts = [of_type(as_lists(array).values, element_of(type))]
    validity = binary.validity(binary.valid(array))
    return pa.Array.from_buffers(type, len(array), [validity, *buffers], children=parts)


def _names(type: pa.DataType) -> list[str]:
    return [field.name for field in type] if pa.types.is_struct(type) else []


def _flatten(columns: Sequence[pa.Array]) -> Iterator[pa.Array]:
    """The columns with each struct followed by its fields, which are null where it is."""
    for column in columns:
        yield column
        if pa.types.is_struct(column.type):
            yield from _flatten(column.flatten())


def _nest(type: pa.DataType, flat: Iterator[pa.Array]) -> pa.Array:
    """The next column from ``flat``; for a struct, ``flat`` has its presence and then its fields."""
    array = next(flat)
    if not pa.types.is_struct(type):
        return array
    fields = [_nest(field.type, flat) for field in type]
    present: BoolArray = array.to_numpy(zero_copy_only=False)
    return pa.Array.from_buffers(type, len(array), [binary.validity(present)], children=fields)
