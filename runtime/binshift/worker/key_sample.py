"""Finds the most frequent key of one task by a sample of its records.

The sample has every n-th record, in the order in which they come. It begins with every one; when it is full, every second is dropped
and n doubles. So its size is bounded, whatever an epoch has, and since rows of a key mostly follow one another, the estimate for a
key is off by a few times n. The cost is that of taking some hundred rows out of each batch.

Keys are users' data: the text of one goes into the task's summary, never into a log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from binshift.load import KEY_CHARACTERS_MAX
from binshift.model import Bin
from binshift.operators.contract import BIN_COLUMN, Keyed, records_of
from binshift.rows import RowCodec
from binshift.worker.messages import FrequentKey

SAMPLES_MAX: Final = 1024
"""Records in a sample at most."""

SHARE_MIN: Final = 0.1
"""Part of the task's records below which a key is not reported."""

TEXT_MAX: Final = KEY_CHARACTERS_MAX
"""Characters of a key's text."""

DIGEST_DIGITS: Final = 8
"""At the end of a text that is cut off, so that keys with the same beginning differ."""

WINDOW_TEXT: Final = "window"
"""In place of a window of event time: a key that is hot is so in each window, and would have another name every time."""


@dataclass
class KeySample:
    """A sample of the keys of one task.

    Attributes:
        keyed: the operator, which knows the columns of the key.
    """

    keyed: Keyed
    _every: int = 1
    _records: int = 0
    _taken: int = 0
    _parts: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """The rows of one more batch."""
        counts = records_of(batch)
        ends = None if counts is None else np.cumsum(counts.to_numpy())
        records = batch.num_rows if ends is None else int(ends[-1]) if len(ends) else 0
        while (self._records + records) // self._every - self._taken >= SAMPLES_MAX:
            self._thin_out()
        at = np.arange(self._taken * self._every - self._records, records, self._every)
        self._records += records
        if not at.size:
            return
        chosen = pa.array(at if ends is None else np.searchsorted(ends, at, side="right"))
        columns = [batch.column(BIN_COLUMN), *self.keyed.key_columns(batch)]
        taken = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))]).take(chosen)
        self._parts.append(taken)
        self._taken += at.size
        while self._taken > SAMPLES_MAX:
            self._thin_out()

    def most_frequent(self) -> FrequentKey | None:
        """The key with most records; None without rows, without key columns, and where none stands out."""
        if not self._taken or self._parts[0].num_columns < 2:
            return None
        sample = pa.concat_batches(self._parts)
        keys = sample.select(sample.schema.names[1:])
        packed = RowCodec(keys.schema).pack(keys).dictionary_encode()
        counts = np.bincount(packed.indices.to_numpy())
        most = int(counts.argmax())
        records = min(int(counts[most]) * self._every, self._records)
        if records < SHARE_MIN * self._records:
            return None
        row = int((packed.indices.to_numpy() == most).argmax())
        bin = Bin(sample.column(0)[row].as_py())
        return FrequentKey(key_text(keys.slice(row, 1).columns), bin, records)

    def _thin_out(self) -> None:
        """Keep every second record."""
        if self._parts:
            whole = pa.concat_batches(self._parts)
            self._parts = [whole.take(pa.array(np.arange(0, whole.num_rows, 2)))]
        self._taken = (self._taken + 1) // 2
        self._every *= 2


def key_text(columns: Sequence[pa.Array]) -> str:
    """A text for the first key of these columns, of at most `TEXT_MAX` printable characters.

    >>> key_text([pa.array(["berlin"]), pa.array([7])]), key_text([pa.array(["line\\nbreak"])])
    ('berlin, 7', 'line\\ufffdbreak')
    """
    whole = ", ".join(_value_text(each) for each in columns)
    shown = "".join(character if character.isprintable() else "\ufffd" for character in whole[:TEXT_MAX])
    if len(whole) <= TEXT_MAX:
        return shown
    digest = hashlib.sha256(whole.encode(errors="surrogatepass")).hexdigest()[:DIGEST_DIGITS]
    return f"{shown[: TEXT_MAX - DIGEST_DIGITS - 1]}\u2026{digest}"


def _value_text(column: pa.Array) -> str:
    """The first value; strings of Spark need not be UTF-8."""
    if _is_window(column.type):
        return WINDOW_TEXT
    if column.null_count and not column[0].is_valid:
        return "null"
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        stored: bytes = column.slice(0, 1).cast(pa.large_binary())[0].as_py()
        return stored.decode(errors="replace")
    try:
        value = column[0].as_py()
    except Exception:  # a date or a time zone that Python does not have, a string in a struct that is not UTF-8
        return "?"
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _is_window(type: pa.DataType) -> bool:
    if not pa.types.is_struct(type) or [each.name for each in type] != ["start", "end"]:
        return False
    return all(pa.types.is_timestamp(each.type) for each in type)
