"""The reference: one process, dictionaries, one record at a time. Slow, and obviously correct.

It knows nothing of bins, workers, repeated runs of an epoch, or logs. Whatever happens to the cluster, its output and its
state must equal the reference's (invariant I5).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from binshift.operators.aggregate import OutputMode
from simulator import folds
from simulator.flows import Flow, Key, Row, Totals
from simulator.graph import LEAF, Graph
from simulator.joinflow import Held, Pairs
from simulator.rowflows import Distinct, First
from simulator.sessionflow import SessionTotals
from simulator.stateflow import StateFlow


class Reference:
    """Runs a flow, epoch by epoch.

    Attributes:
        flow: what it runs.
        state: each key's current state.
        waiting: the rows that a join keeps.
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
        self.waiting: list[folds.Waiting] = []
        self.watermark_ms = 0
        self.outputs: list[list[Row]] = []
        self._watermark_before = 0

    def epoch(self, rows: Sequence[Row]) -> list[Row]:
        """Process one epoch's rows; returns its output, in no particular order. The flow's own watermark counts."""
        output = self.step([rows], self.watermark_ms, self._watermark_before)
        if self.flow.delay_ms is not None:
            times = [row[self.flow.time] - self.flow.delay_ms for row in rows]
            self.watermark_ms = max([self.watermark_ms, *times])
        return output

    def step(self, inputs: Sequence[Sequence[Row]], watermark: int, before: int) -> list[Row]:
        """Process one epoch's rows of each input by given watermarks: its own, and that of the epoch before."""
        rows = [row for each in inputs for row in each]
        self._watermark_before = watermark
        match self.flow:
            case Totals():
                output = self._totals(self.flow, rows, watermark, before)
            case StateFlow():
                output = self._function(self.flow, rows)
            case Distinct():
                output = folds.distinct(self.flow, self.state, inputs, watermark, before)
            case First():
                output = folds.first(self.flow, self.state, inputs)
            case SessionTotals():
                output = folds.sessions(self.flow, self.state, inputs, watermark, before)
            case Pairs():
                output = folds.pairs(self.flow, self.waiting, inputs, watermark, before)
            case _:
                raise TypeError(f"the reference cannot run {self.flow!r}")
        self.outputs.append(output)
        return output

    def held(self) -> Held | None:
        """What a join keeps; None for other operators."""
        return folds.held(self.flow, self.waiting, self._watermark_before) if isinstance(self.flow, Pairs) else None

    def _totals(self, flow: Totals, rows: Sequence[Row], watermark: int, before: int) -> list[Row]:
        changed = set()
        for row in rows:
            if flow.where is not None and not flow.where(row):
                continue
            key = flow.key_of(row)
            if flow.expires and flow.expiry_of(key) <= before:
                continue  # late: the group was closed in an earlier epoch
            self.state[key] = _added(self.state.get(key), row[flow.value])
            changed.add(key)
        finished = self._finished(flow, watermark, before)
        emitted = {OutputMode.UPDATE: changed, OutputMode.APPEND: finished, OutputMode.COMPLETE: self.state}[flow.mode]
        output: list[Row] = [
            {**dict(zip(flow.key_schema.names, key, strict=True)), **self.state[key]} for key in emitted
        ]
        for key in finished:
            del self.state[key]
        return output

    def _finished(self, flow: Totals, watermark: int, before: int) -> list[Key]:
        if not flow.expires or watermark == before:
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


class GraphReference:
    """Runs all operators of a query, one after the other, epoch by epoch.

    Attributes:
        graph: what it runs.
        references: of each operator.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.references = {name: Reference(node.flow) for name, node in graph.nodes.items()}
        self._seen: list[Row] = []
        self._watermark_before = 0

    def epoch(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """Process one epoch's rows; returns the output of each operator."""
        watermark, outputs = self._watermark_ms(), dict[str, list[Row]]()
        for name, reference in self.references.items():
            inputs = self.graph.inputs(name, rows, outputs)
            delay = self.graph.delay_ms(name)
            outputs[name] = reference.step(inputs, watermark - delay, self._watermark_before - delay)
        self._seen += rows
        self._watermark_before = watermark
        return outputs

    def _watermark_ms(self) -> int:
        """Of all rows so far: the lowest of all marks; 0 before the first row of any of them."""
        latest = [
            max(
                (row[mark.column] - mark.delay_ms for row in self._seen if mark.leaf in (None, row.get(LEAF))),
                default=0,
            )
            for mark in self.graph.marks
        ]
        return max(0, min(latest, default=0))


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
