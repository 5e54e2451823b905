"""Sessions of a key: rows that follow one another within a gap are counted and summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from binshift.operators.aggregate import OutputMode
from binshift.operators.contract import BIN_COLUMN, EXPIRY_SPACE, RECORDS_COLUMN, STATE_SPACE
from binshift.operators.expiry import expiry_bytes
from binshift.operators.merge import Merge, MergeSpec
from binshift.operators.session_codec import DIRECTORY_SPACE, SESSION_END_COLUMN, SESSION_START_COLUMN
from binshift.operators.sessions import Sessions
from binshift.rows import RowCodec
from simulator.flows import Packed, Row, State, bin_of, union

KEYS = pa.schema([("key", pa.string())])
BUFFERS = pa.schema([("rows", pa.int64()), ("sum", pa.int64())])
MICROS = 1000
"""Microseconds in a millisecond."""


@dataclass(frozen=True)
class SessionTotals:
    """Rows and their sum, for each key and session.

    Attributes:
        gap_ms: a session ends that long after its last row.
        mode: emit ended sessions once, or all in every epoch.
        name: see `Flow`.
    """

    gap_ms: int
    mode: OutputMode = OutputMode.APPEND
    name: str = "sessions"
    delay_ms: ClassVar[int | None] = None
    time: ClassVar[str] = "time"
    holds_back_ms: ClassVar[int] = 0

    @property
    def ends(self) -> bool:
        """Whether sessions end."""
        return self.mode is OutputMode.APPEND

    @property
    def operator(self) -> Sessions:
        """The real operator."""
        merges = (MergeSpec(Merge.COUNT, ("rows",)), MergeSpec(Merge.SUM, ("sum",)))
        return Sessions(KEYS, BUFFERS, merges, self.mode)

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """One row for each key and time, by bin and key."""
        groups: dict[tuple[str, int], list[Row]] = {}
        for row in union(inputs):
            groups.setdefault((row["key"], row["time"]), []).append(row)
        order = sorted(groups, key=lambda group: (bin_of(group[:1], bins), group))
        values = [[row["value"] for row in groups[each] if row["value"] is not None] for each in order]
        columns: dict[str, Any] = {
            BIN_COLUMN: pa.array([bin_of(group[:1], bins) for group in order], pa.int32()),
            "key": pa.array([key for key, _ in order], pa.string()),
            SESSION_START_COLUMN: pa.array([time * MICROS for _, time in order], pa.int64()),
            SESSION_END_COLUMN: pa.array([(time + self.gap_ms) * MICROS for _, time in order], pa.int64()),
            "rows": pa.array([len(groups[each]) for each in order], pa.int64()),
            "sum": pa.array([sum(some) if some else None for some in values], pa.int64()),
            RECORDS_COLUMN: pa.array([len(groups[each]) for each in order], pa.int64()),
        }
        return pa.RecordBatch.from_pydict(columns)

    def packed(self, state: State, bins: int) -> Packed:
        """A row for each session, one in the index if it ends, and the starts of each key's sessions."""
        keys, found = RowCodec(KEYS), dict[int, dict[bytes, bytes]]()
        value_schema = pa.schema([(SESSION_END_COLUMN, pa.int64()), *BUFFERS])
        values = RowCodec(value_schema, canonical=False)
        for key, start in sorted(state):
            kept, rows = state[key, start], found.setdefault(bin_of((key,), bins), {})
            code = keys.pack_columns([pa.array([key], pa.string())], 1)[0].as_py()
            value = [kept["end"] * MICROS, kept["rows"], kept["sum"]]
            began = expiry_bytes(start * MICROS)
            columns = [pa.array([each], pa.int64()) for each in value]
            rows[STATE_SPACE + code + began] = values.pack_columns(columns, 1)[0].as_py()
            rows[DIRECTORY_SPACE + code] = rows.get(DIRECTORY_SPACE + code, b"") + began
            if self.ends:
                rows[EXPIRY_SPACE + expiry_bytes(kept["end"]) + code + began] = b""
        return found
