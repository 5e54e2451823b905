"""References of the state operators: dictionaries, one row at a time. Slow, and obviously correct.

Each class runs the epochs of one operator. They know nothing of bins, workers, batches and packed bytes. Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from operator_histories import Key, Row, canonical

from binshift.operators.deduplicate import Deduplicate, Retention


@dataclass(frozen=True)
class Seen:
    """A row of a history.

    Attributes:
        key: its key.
        time: its event time, or None.
        row: all of its values.
    """

    key: Key
    time: int | None
    row: Row


@dataclass
class DeduplicateFold:
    """`Deduplicate`.

    Attributes:
        operator: what it stands for; only its fields are read.
        expiries: of each key that has a state; None: never.
        late: rows that the last epoch dropped as late.
    """

    operator: Deduplicate
    expiries: dict[str, int | None] = field(default_factory=dict)
    late: int = 0
    watermark: int = 0

    def epoch(self, rows: Sequence[Seen], watermark: int) -> list[Row]:
        """The rows that pass."""
        output, self.late = [], 0
        for seen in rows:
            if self.operator.event_time and seen.time is not None and seen.time <= self.watermark:
                self.late += 1
            elif canonical(seen.key) not in self.expiries:
                self.expiries[canonical(seen.key)] = self._expiry(seen.time)
                output.append(seen.row)
        self.expiries = {key: at for key, at in self.expiries.items() if at is None or at > watermark}
        self.watermark = watermark
        return output

    def _expiry(self, time: int | None) -> int | None:
        match self.operator.retention:
            case Retention.FOREVER:
                return None
            case Retention.EVENT_TIME:
                return time
            case Retention.WATERMARK:
                return (time or 0) + self.operator.delay_ms


@dataclass(frozen=True)
class Session:
    """A session, or a row of one.

    Attributes:
        start: microseconds.
        end: microseconds, exclusive.
        count: the records in it.
        texts: collected values in their order.
    """

    start: int
    end: int
    count: int
    texts: tuple[bytes, ...]

    def row(self, key: Key) -> Row:
        """The output row."""
        return (*key, self.start, self.end, self.count, list(self.texts))


@dataclass
class SessionsFold:
    """`Sessions` with a count and a list.

    Attributes:
        complete: whether every epoch emits all sessions, and none ends.
        expires: whether rows can be late.
        state: the sessions of each key, by start.
        late: rows that the last epoch dropped as late.
    """

    complete: bool
    expires: bool = True
    state: dict[str, tuple[Key, list[Session]]] = field(default_factory=dict)
    late: int = 0
    watermark: int = 0

    def epoch(self, rows: Sequence[tuple[Key, Session]], watermark: int) -> list[Row]:
        """The sessions that end, or all."""
        on_time = [row for row in rows if not self.expires or row[1].end > 1000 * self.watermark]
        self.late, self.watermark = len(rows) - len(on_time), watermark
        for name in {canonical(key) for key, _ in on_time}:
            mine = [(key, session) for key, session in on_time if canonical(key) == name]
            key, stored = self.state.get(name, (normal(mine[0][0]), []))
            new = sorted((session for _, session in mine), key=lambda session: (session.start, session.end))
            self.state[name] = key, merged(sorted([*stored, *new], key=lambda session: session.start))
        if self.complete:
            return [session.row(key) for key, sessions in self.state.values() for session in sessions]
        return self._ended(1000 * watermark)

    def _ended(self, watermark_us: int) -> list[Row]:
        output = [s.row(key) for key, sessions in self.state.values() for s in sessions if s.end <= watermark_us]
        left = {name: (key, [s for s in some if s.end > watermark_us]) for name, (key, some) in self.state.items()}
        self.state = {name: pair for name, pair in left.items() if pair[1]}
        return output


def normal(key: Key) -> Key:
    """The key as it is stored."""
    return tuple(value + 0.0 if isinstance(value, float) else value for value in key)


def merged(parts: Sequence[Session]) -> list[Session]:
    """Sessions in the order of their starts, with the ones that overlap or touch merged, as Spark's ``MergingSessionsIterator``."""
    found: list[Session] = []
    for part in parts:
        if found and part.start <= found[-1].end:
            last = found.pop()
            texts = last.texts + part.texts
            part = Session(last.start, max(last.end, part.end), last.count + part.count, texts)
        found.append(part)
    return found
