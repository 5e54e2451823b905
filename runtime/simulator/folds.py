"""References of the operators on whole rows, sessions and pairs: dictionaries and nested loops. Slow, and obviously correct.

Each function processes one epoch: it changes ``state`` and returns the output. ``watermark`` is the epoch's own, ``before`` that of the
epoch before, both in milliseconds. Nothing here knows bins, workers or packed bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from binshift.operators.aggregate import OutputMode
from binshift.operators.join import JoinType
from simulator.flows import Key, Row
from simulator.joinflow import SIDES, Held, Pairs
from simulator.rowflows import Distinct, First
from simulator.sessionflow import SessionTotals

Inputs = Sequence[Sequence[Row]]
State = dict[Key, Row]


def distinct(flow: Distinct, state: State, inputs: Inputs, watermark: int, before: int) -> list[Row]:
    """The first row of each key that is not known."""
    output: list[Row] = []
    for row in [row for rows in inputs for row in rows]:
        key = tuple(row[name] for name in flow.keys)
        if (flow.timed and row["time"] <= before) or key in state:
            continue
        until = None
        if flow.within_ms is not None:
            until = row["time"] + flow.within_ms
        elif flow.timed and "time" in flow.keys:
            until = row["time"]
        state[key] = {"until": until}
        output.append({name: row[name] for name in ("key", "value", "time")})
    for key in [key for key, kept in state.items() if kept["until"] is not None and kept["until"] <= watermark]:
        del state[key]
    return output


def first(flow: First, state: State, inputs: Inputs) -> list[Row]:
    """Rows until the limit is reached."""
    passed = state.get((), {"rows": 0})["rows"]
    rows = [row for rows in inputs for row in rows][: flow.limit - passed]
    if rows:
        state[()] = {"rows": passed + len(rows)}
    return [{name: row[name] for name in ("key", "value", "time")} for row in rows]


def sessions(flow: SessionTotals, state: State, inputs: Inputs, watermark: int, before: int) -> list[Row]:
    """Each row is a session of its own, which takes in all sessions that it overlaps or touches."""
    for row in [row for rows in inputs for row in rows]:
        key, start, end = row["key"], row["time"], row["time"] + flow.gap_ms
        if end <= before:
            continue
        count, total = 1, row["value"]
        for other in [other for other in state if other[0] == key]:
            kept = state[other]
            if other[1] <= end and start <= kept["end"]:
                start, end = min(start, other[1]), max(end, kept["end"])
                count, total = count + kept["rows"], _sum(total, kept["sum"])
                del state[other]
        state[key, start] = {"end": end, "rows": count, "sum": total}
    emitted = [key for key, kept in state.items() if not flow.ends or kept["end"] <= watermark]
    output: list[Row] = [
        {
            "key": key,
            "__session_start_us": 1000 * start,
            "__session_end_us": 1000 * state[key, start]["end"],
            "rows": state[key, start]["rows"],
            "sum": state[key, start]["sum"],
        }
        for key, start in emitted
    ]
    if flow.mode is OutputMode.APPEND:
        for key in emitted:
            del state[key]
    return output


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second


@dataclass
class Waiting:
    """A row of a join.

    Attributes:
        side: 0 is the left one.
        row: the row.
        until: when it leaves; None: never.
        new: whether it came in this epoch.
        matched: whether it was in a pair.
    """

    side: int
    row: Row
    until: int | None
    new: bool = True
    matched: bool = False


def pairs(flow: Pairs, waiting: list[Waiting], inputs: Inputs, watermark: int, before: int) -> list[Row]:
    """Every row of one side with every row of the other, of which one at least is new."""
    output: list[Row] = []
    semi = flow.type is JoinType.LEFT_SEMI
    for side, rows in enumerate(inputs):
        waits = flow.after_ms if side == 0 else flow.before_ms
        on_time = [row for row in rows if row["time"] > before]
        waiting += [Waiting(side, row, None if waits is None else row["time"] + waits) for row in on_time]
    for left in [each for each in waiting if each.side == 0]:
        for right in [each for each in waiting if each.side == 1]:
            if (left.new or right.new) and _fits(flow, left.row, right.row):
                if not semi:
                    output.append(_pair(left.row, right.row))
                elif not left.matched:
                    output.append(_half(left.row, 0))
                left.matched = right.matched = True
    ended = [each for each in waiting if each.until is not None and each.until <= watermark]
    output += [
        _pair(each.row, None) if each.side == 0 else _pair(None, each.row)
        for each in ended
        if not each.matched and flow.type.is_outer(each.side)
    ]
    waiting[:] = [
        Waiting(each.side, each.row, each.until, False, each.matched)
        for each in waiting
        if (each.until is None or each.until > watermark) and not (semi and each.side == 0 and each.matched)
    ]
    return output


def _fits(flow: Pairs, left: Row, right: Row) -> bool:
    if left["key"] != right["key"]:
        return False
    if flow.before_ms is None or flow.after_ms is None:
        return True
    return bool(left["time"] - flow.before_ms <= right["time"] <= left["time"] + flow.after_ms)


def _pair(left: Row | None, right: Row | None) -> Row:
    return _half(left, 0) | _half(right, 1)


def _half(row: Row | None, side: int) -> dict[str, object]:
    names = zip(SIDES[side].names, ("key", "value", "time"), strict=True)
    return {name: None if row is None else row[own] for name, own in names}


def held(flow: Pairs, waiting: Sequence[Waiting], watermark: int) -> Held:
    """The rows that wait, as the stores must have them."""
    rows = [
        (flow.columns_of(each.side, each.row), each.until, each.matched and flow.type.is_outer(each.side))
        for each in waiting
    ]
    return Held(flow, tuple(rows), watermark)
