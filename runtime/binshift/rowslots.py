"""One column of a packed row: its width, and the conversion of its values to bytes and back.

This module owns the mapping from Arrow types to packed bytes; `rows` owns their arrangement. There are three cases:
fixed-width values (copied from memory), byte strings, and lists (an element count, the elements' lengths if they vary, and the
elements as packed rows of their own codec, so that nesting of any depth stays vectorised and canonical). A struct has no bytes
except its null bit; its fields follow it.

It must never accept a type whose bytes are not a function of its value: dictionaries, unions and views are rejected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift import binary
from binshift.binary import BoolArray
from binshift.errors import LogDamaged, Unsupported

_LENGTH = np.dtype("<u4")
_FIXED = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_interval,
    pa.types.is_decimal,
    pa.types.is_fixed_size_binary,
)
_BYTES = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_map)


class ElementCodec(Protocol):
    """The part of the elements' codec that a list needs (`rows.RowCodec`)."""

    @property
    def fixed_bytes(self) -> int | None:
        """Bytes of every packed element, None if they vary."""

    def pack_columns(self, columns: Sequence[pa.Array], rows: int) -> pa.BinaryArray:
        """One byte string per element."""

    def unpack_columns(self, rows: pa.BinaryArray) -> list[pa.Array]:
        """The elements again."""


CodecOf = Callable[[pa.DataType], ElementCodec]


class Slot:
    """One column, or one struct, of a packed row; ``dtype`` is its type in the fixed part, if it has any."""

    dtype: np.dtype[Any] | None = None

    def __init__(self, type: pa.DataType, name: str) -> None:
        self.type = type
        self.name = name

    def damaged(self, what: str) -> LogDamaged:
        """The error for bytes that are not a value of this column."""
        return LogDamaged(f"packed state is damaged: column {self.name!r} ({self.type}) has {what}")


class NullSlot(Slot):
    """A column of type null: only a null bit."""


class StructSlot(Slot):
    """A struct: only a null bit."""


class FixedSlot(Slot):
    """A column whose values all have the same width; null is zeros."""

    dtype: np.dtype[Any]

    def __init__(self, type: pa.DataType, name: str, canonical: bool) -> None:
        super().__init__(type, name)
        width = 1 if pa.types.is_boolean(type) else type.bit_width // 8
        floating = pa.types.is_floating(type)
        self.dtype = np.dtype(f"<f{width}" if floating else f"<u{width}" if width in (1, 2, 4, 8) else f"V{width}")
        self._normalise = canonical and floating

    def values(self, array: pa.Array, present: BoolArray) -> npt.NDArray[Any]:
        """The values as an array of ``self.dtype``."""
        if pa.types.is_boolean(self.type):
            array = array.cast(pa.uint8())
        content = array.buffers()[1]
        if content is None or not self.dtype.itemsize:
            return np.zeros(len(array), dtype=self.dtype)
        values = np.frombuffer(content, dtype=self.dtype, count=array.offset + len(array))[array.offset :]
        if self._normalise:
            values = values + values.dtype.type(0.0)
            values[np.isnan(values)] = np.nan
        if not present.all():
            values = values.copy()
            values[~present] = np.zeros(1, dtype=self.dtype)[0]
        return values

    def decode(self, values: npt.NDArray[Any], present: BoolArray) -> pa.Array:
        """The array of these values."""
        if pa.types.is_boolean(self.type):
            if values.size and values.max() > 1:
                raise self.damaged(f"the byte {int(values.max())}")
            values = np.packbits(values, bitorder="little")
        content = np.ascontiguousarray(values)
        buffer = pa.py_buffer(content.view(np.uint8) if content.size and self.dtype.itemsize else b"")
        return pa.Array.from_buffers(self.type, len(present), [binary.validity(present), buffer])


class VariableSlot(Slot, ABC):
    """A column whose values vary in width: the length of its bytes in the fixed part, the bytes in the tail."""

    dtype = _LENGTH

    @abstractmethod
    def encode(self, array: pa.Array, present: BoolArray) -> pa.BinaryArray:
        """Each value's bytes; empty for null."""

    @abstractmethod
    def restore(self, tails: pa.BinaryArray, present: BoolArray) -> pa.Array:
        """The column of these bytes.

        Raises:
            LogDamaged: the bytes are not a value of this column.
        """


class BytesSlot(VariableSlot):
    """A string or binary column. Any bytes are valid, as in Spark, whose strings need not be UTF-8."""

    def encode(self, array: pa.Array, present: BoolArray) -> pa.BinaryArray:
        """Each value's bytes; empty for null."""
        return array.cast(pa.binary()).fill_null(b"") if array.null_count else array.cast(pa.binary())

    def restore(self, tails: pa.BinaryArray, present: BoolArray) -> pa.Array:
        """The column of these bytes."""
        text = pa.types.is_string(self.type) or pa.types.is_large_string(self.type)
        bounds = pa.py_buffer(binary.offsets(tails).astype(np.int32))
        near = pa.string() if text else pa.binary()
        array = pa.Array.from_buffers(near, len(tails), [binary.validity(present), bounds, binary.data(tails)])
        return array.cast(self.type)


class ListSlot(VariableSlot):
    """A list or map column: in the tail its element count, the elements' lengths (if they vary) and the elements."""

    def __init__(self, type: pa.DataType, name: str, codec_of: CodecOf) -> None:
        super().__init__(type, name)
        self._codec = codec_of(element_of(type))

    def encode(self, array: pa.Array, present: BoolArray) -> pa.BinaryArray:
        """Each list's bytes; empty for null."""
        elements = as_lists(array).flatten()
        counts = np.where(present, np.diff(array.offsets.to_numpy()), 0)
        bounds = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        rows = self._codec.pack_columns([elements], len(elements))
        row_bounds = binary.offsets(rows)
        parts = [_present_only(counts, present), binary.build(row_bounds[bounds], binary.data(rows))]
        if self._codec.fixed_bytes is None:
            sizes = pa.py_buffer(np.diff(row_bounds).astype(_LENGTH))
            parts.insert(1, binary.build(bounds * _LENGTH.itemsize, sizes))
        return binary.join(parts)

    def restore(self, tails: pa.BinaryArray, present: BoolArray) -> pa.Array:
        """The column of these bytes."""
        bounds, content = binary.offsets(tails), binary.data(tails)
        starts, stops = bounds[:-1], bounds[1:]
        begins = np.where(present, starts + _LENGTH.itemsize, starts)
        if (begins > stops).any():
            raise self.damaged("a list without its element count")
        counts = np.zeros(len(tails), dtype=np.int64)
        counts[present] = binary.contiguous(binary.pieces(content, starts, begins)).view(_LENGTH)
        rows = self._element_rows(content, begins, stops, counts)
        elements = self._codec.unpack_columns(rows)[0]
        wide = pa.types.is_large_list(self.type)
        ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int64 if wide else np.int32)
        buffers = [binary.validity(present), pa.py_buffer(ends)]
        return pa.Array.from_buffers(self.type, len(tails), buffers, children=[elements])

    def _element_rows(
        self, content: pa.Buffer, begins: binary.Offsets, stops: binary.Offsets, counts: binary.Offsets
    ) -> pa.BinaryArray:
        """The packed elements of all lists, concatenated."""
        width = self._codec.fixed_bytes
        middles = begins if width is not None else begins + counts * _LENGTH.itemsize
        if (middles > stops).any():
            raise self.damaged("fewer element lengths than elements")
        packed = binary.pieces(content, middles, stops)
        if width is None:
            sizes = binary.contiguous(binary.pieces(content, begins, middles)).view(_LENGTH).astype(np.int64)
            ends = np.concatenate(([0], np.cumsum(sizes)))
            fills = ends[np.concatenate(([0], np.cumsum(counts)))] == binary.offsets(packed)
        else:
            fills = counts * width == stops - begins
            ends = np.arange(int(counts.sum()) + 1 if fills.all() else 1, dtype=np.int64) * width
        if not fills.all():
            raise self.damaged("elements that do not fill their list")
        return binary.build(ends, pa.py_buffer(binary.contiguous(packed)))


def element_of(type: pa.DataType) -> pa.DataType:
    """The type of a list's elements; for a map, a struct of key and value."""
    return pa.struct([type.key_field, type.item_field]) if pa.types.is_map(type) else type.value_type


def as_lists(array: pa.Array) -> pa.Array:
    """A map column as lists of its entries; a list column unchanged."""
    if not pa.types.is_map(array.type):
        return array
    # Not by a cast: Arrow rejects one if a null struct has a field that is declared never null.
    element = element_of(array.type)
    entries = pa.Array.from_buffers(element, len(array.keys), [None], children=[array.keys, array.items])
    buffers = [binary.validity(binary.valid(array)), pa.py_buffer(array.offsets.to_numpy())]
    return pa.Array.from_buffers(pa.list_(element), len(array), buffers, children=[entries])


def _present_only(counts: npt.NDArray[Any], present: BoolArray) -> pa.BinaryArray:
    """The counts of present lists as bytes; nothing for a null list."""
    sizes = np.concatenate(([0], np.cumsum(present * _LENGTH.itemsize)))
    return binary.build(sizes, pa.py_buffer(counts[present].astype(_LENGTH)))


def slots_of(type: pa.DataType, name: str, canonical: bool, codec_of: CodecOf) -> Iterator[Slot]:
    """The slots of one column: one, or for a struct its own followed by those of its fields.

    ``codec_of`` creates the codec for a list's elements, which are rows themselves.

    Raises:
        Unsupported: no packed form exists for ``type``.
    """
    if pa.types.is_struct(type):
        yield StructSlot(type, name)
        for field in type:
            yield from slots_of(field.type, f"{name}.{field.name}", canonical, codec_of)
    elif any(known(type) for known in _FIXED):
        yield FixedSlot(type, name, canonical)
    elif any(known(type) for known in _BYTES):
        yield BytesSlot(type, name)
    elif any(known(type) for known in _LISTS):
        yield ListSlot(type, name, codec_of)
    elif pa.types.is_null(type):
        yield NullSlot(type, name)
    else:
        raise Unsupported(f"state column {name!r} has the type {type}, which cannot be stored: cast it to a plain one")
