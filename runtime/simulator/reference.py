"""The reference: one process, dictionaries, one record at a time. Slow, and obviously correct.

It knows nothing of bins, workers, repeated runs of an epoch, or logs. Whatever happens to the cluster, its output and its
state must equal the reference's (invariant I5).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from binshift.operators.aggregate import OutputMode
from simulator.flows import Flow, Key, Row, StateFlow, Totals


class Reference:
    """Runs a flow, epoch by epoch.

    Attributes:
        flow: what it runs.
        state: each key's current state.
        watermark_ms: the watermark of the next epoch; 0 before the first event.
        outputs: the output of each epoch.

    >>> reference = Reference(Totals())
    >>> reference.epoch([{"key": "a", "value": 2}, {"key": "a", "value": 3}])
    [{'key': 'a', 'rows': 2, 'sum': 5, 'least': 2, 'greatest': 3}]
    >>> reference.epoch([{"key": "a", "value": 1}])
    [{'key': 'a', 'rows': 3, 'sum': 6, 'least': 1, 'greatest': 3}]
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.state: dict[Key, Row] = {}
        self.watermark_ms = 0
        self.outputs: list[list[Row]] = []
        self._watermark_before = 0

    def epoch(self, rows: Sequence[Row]) -> list[Row]:
        """Process one epoch's rows; returns its output, in no particular order."""
        match self.flow:
            case Totals():
                output = self._totals(self.flow, rows)
            case StateFlow():
                output = self._function(self.flow, rows)
            case _:
                raise TypeError(f"the reference cannot run {self.flow!r}")
        self.outputs.append(output)
        return output

    def _totals(self, flow: Totals, rows: Sequence[Row]) -> list[Row]:
        watermark, before, changed = self.watermark_ms, self._watermark_before, set()
        for row in rows:
            if flow.where is not None and not flow.where(row):
                continue
            key = flow.key_of(row)
            if flow.expires and flow.expiry_of(key) <= before:
                continue  # late: the group was closed in an earlier epoch
            self.state[key] = _added(self.state.get(key), row[flow.value])
            changed.add(key)
        finished = self._finished(flow, watermark)
        emitted = {OutputMode.UPDATE: changed, OutputMode.APPEND: finished, OutputMode.COMPLETE: self.state}[flow.mode]
        output: list[Row] = [
            {**dict(zip(flow.key_schema.names, key, strict=True)), **self.state[key]} for key in emitted
        ]
        for key in finished:
            del self.state[key]
        self._watermark_before = watermark
        if flow.delay_ms is not None:
            self.watermark_ms = max([watermark, *(row[flow.time] - flow.delay_ms for row in rows)])
        return output

    def _finished(self, flow: Totals, watermark: int) -> list[Key]:
        if not flow.expires or watermark == self._watermark_before:
            return []
        return [key for key in self.state if flow.expiry_of(key) <= watermark]

    def _function(self, flow: StateFlow, rows: Sequence[Row]) -> list[Row]:
        grouped: dict[Key, list[Row]] = {}
        for row in rows:
            grouped.setdefault(flow.key_of(row), []).append({name: row[name] for name in flow.rows.names})
        output: list[Row] = []
        for key, some in grouped.items():
            emitted, after = _call(flow, key, some, self.state.get(key))
            output += emitted
            self.state.pop(key, None)
            if after is not None:
                self.state[key] = after
        return output


def _added(before: Row | None, value: int | None) -> Row:
    old = before or {"rows": 0, "sum": None, "least": None, "greatest": None}
    if value is None:
        return {**old, "rows": old["rows"] + 1}
    first = old["sum"] is None
    return {
        "rows": old["rows"] + 1,
        "sum": value if first else old["sum"] + value,
        "least": value if first else min(old["least"], value),
        "greatest": value if first else max(old["greatest"], value),
    }


def _call(flow: StateFlow, key: Key, rows: list[Row], before: Row | None) -> tuple[Sequence[Row], Row | None]:
    """The user's function for one key alone."""
    if flow.one_key is not None:
        return flow.one_key(key, rows, before)
    names = dict(zip(flow.keys, key, strict=True))
    keys = pa.RecordBatch.from_pylist([names], schema=flow.key_schema)
    held = [] if before is None else [{**names, **before}]
    state_schema = pa.schema([*flow.key_schema, *flow.state])
    output, after = flow.function(
        keys,
        pa.Table.from_pylist([dict(row) for row in rows], schema=flow.rows),
        pa.Table.from_pylist(held, state_schema),
    )
    kept = after.to_pylist()
    return output.to_pylist(), {name: kept[0][name] for name in flow.state.names} if kept else None
