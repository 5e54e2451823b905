"""A join of two inputs by their keys and, if wanted, by a range of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from binshift.operators.contract import BIN_COLUMN, STATE_SPACE
from binshift.operators.expiry import EXPIRY_COLUMN
from binshift.operators.join import LATE_COLUMN, MATCHES_COLUMN, SIDE_COLUMN, Comparison, Join, JoinType
from binshift.operators.join_chunks import NEVER, decode
from binshift.rows import RowCodec
from simulator.flows import Key, Packed, Row, State, bin_of

KEYS = pa.schema([("key", pa.string())])
SIDES = (
    pa.schema([("lkey", pa.string()), ("lvalue", pa.int64()), ("ltime", pa.int64())]),
    pa.schema([("rkey", pa.string()), ("rvalue", pa.int64()), ("rtime", pa.int64())]),
)
"""The columns of both sides in the output."""
RANGE = (pa.field("earliest", pa.int64()), pa.field("latest", pa.int64()))
"""What is compared with the right side's time; columns of the left side that are not in the output."""
SUFFIX_BYTES = 9
"""The last bytes of a chunk's name: its side and its number."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows with the same key, the first input being the left side.

    Attributes:
        type: which rows come out.
        before_ms: how much earlier the right row may be, and
        after_ms: how much later, in milliseconds of event time; both None: at any time, and rows are kept forever.
        name: see `Flow`.
    """

    type: JoinType
    before_ms: int | None = None
    after_ms: int | None = None
    name: str = "pairs"
    delay_ms: ClassVar[int | None] = None
    time: ClassVar[str] = "time"

    @property
    def ranged(self) -> bool:
        """Whether times are compared."""
        return self.before_ms is not None

    @property
    def waits_ms(self) -> tuple[int, int]:
        """How long a left and a right row wait for a partner, in milliseconds of event time."""
        return self.after_ms or 0, self.before_ms or 0

    @property
    def holds_back_ms(self) -> int:
        """As long as the longer wait."""
        return max(self.waits_ms)

    @property
    def operator(self) -> Join:
        """The real operator."""
        left = pa.schema([*SIDES[0], *RANGE]) if self.ranged else SIDES[0]
        comparisons = (Comparison("earliest", "<=", "rtime"), Comparison("latest", ">=", "rtime"))
        return Join(KEYS, left, SIDES[1], self.type, (3, 3), comparisons if self.ranged else ())

    def expiry_of(self, side: int, row: Row) -> int | None:
        """When a row can match no later one any more."""
        return int(row["time"] + self.waits_ms[side]) if self.ranged else None

    def arranged(self, inputs: Sequence[Sequence[Row]], bins: int) -> pa.RecordBatch:
        """The rows of both sides by bin, side, key and input order."""
        sent = [(side, row) for side, rows in enumerate(inputs) for row in rows]
        sent.sort(key=lambda each: (bin_of((each[1]["key"],), bins), each[0], each[1]["key"]))
        columns: dict[str, Any] = {
            BIN_COLUMN: pa.array([bin_of((row["key"],), bins) for _, row in sent], pa.int32()),
            SIDE_COLUMN: pa.array([side for side, _ in sent], pa.int8()),
            "key": pa.array([row["key"] for _, row in sent], pa.string()),
            LATE_COLUMN: pa.array([row["time"] for _, row in sent], pa.int64()),
            EXPIRY_COLUMN: pa.array([self.expiry_of(*each) for each in sent], pa.int64()),
            MATCHES_COLUMN: pa.array([True] * len(sent), pa.bool_()),
        }
        for side, schema in enumerate((self.operator.left, self.operator.right)):
            for at, field in enumerate(schema):
                values = [self.columns_of(side, row)[at] if side == of else None for of, row in sent]
                columns[field.name] = pa.array(values, field.type)
        return pa.RecordBatch.from_pydict(columns)

    def columns_of(self, side: int, row: Row) -> tuple[Any, ...]:
        """A row as its side has it."""
        shown = row["key"], row["value"], row["time"]
        if side or not self.ranged:
            return shown
        return *shown, row["time"] - self.waits_ms[1], row["time"] + self.waits_ms[0]

    def packed(self, state: State, bins: int) -> None:
        """Rows are in chunks, which depend on the order in which they came: see `held`."""

    def held(self, stored: Packed, watermark_ms: int) -> list[tuple[Key, int | None, bool]]:
        """The stored rows that can still match: their columns, expiry, and, where it is kept, whether they have matched."""
        operator, found = self.operator, list[tuple[Key, int | None, bool]]()
        codecs = [RowCodec(schema, canonical=False) for schema in (operator.left, operator.right)]
        for rows in stored.values():
            for name, value in rows.items():
                if not name.startswith(STATE_SPACE):
                    continue
                side, chunk = name[-SUFFIX_BYTES], decode(pa.array([value], pa.binary()))[0]
                columns = codecs[side].unpack(chunk.packed).to_pylist()
                outer = self.type.is_outer(side)
                for row, expiry, matched in zip(columns, chunk.expiry.tolist(), chunk.matched.tolist(), strict=True):
                    until = None if expiry == NEVER else expiry
                    if until is None or until > watermark_ms:
                        found.append((tuple(row.values()), until, matched and outer))
        return found


@dataclass(frozen=True)
class Held:
    """What a join must keep.

    Attributes:
        flow: the join.
        rows: in the form of `Pairs.held`.
        watermark_ms: rows that have expired by it may be stored, and do not count.
    """

    flow: Pairs
    rows: tuple[tuple[Key, int | None, bool], ...]
    watermark_ms: int

    def unlike(self, stored: Packed) -> str:
        """How the stored rows differ; empty if they are these."""
        found, wanted = Counter(self.flow.held(stored, self.watermark_ms)), Counter(self.rows)
        return "" if found == wanted else f"lacks {[*(wanted - found)][:3]} and has {[*(found - wanted)][:3]}"
