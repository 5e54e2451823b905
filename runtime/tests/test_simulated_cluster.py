"""`simulator` as users see it: the reference by example, and a cluster that detects errors."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from binshift.errors import EpochFailed
from binshift.operators.aggregate import OutputMode
from simulator import Contradiction, Fault, Faults, Reference, Row, SimulatedCluster, StateFlow, Totals, at

WINDOWS = Totals(window_ms=10, delay_ms=5, mode=OutputMode.APPEND)
ROWS = pa.schema([("user", pa.string()), ("amount", pa.int64())])
BALANCE = pa.schema([("balance", pa.int64())])
TOLD = pa.schema([("user", pa.string()), ("balance", pa.int64())])


def event(key: str, value: int | None, time: int = 0) -> Row:
    return {"key": key, "value": value, "time": time}


def group(key: str, window: int, rows: int, total: int, least: int, greatest: int) -> Row:
    return {"key": key, "window": window, "rows": rows, "sum": total, "least": least, "greatest": greatest}


def balances(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A function as a user writes it: a balance for each user, deleted when it is zero."""
    before = dict(zip(state["user"].to_pylist(), state["balance"].to_pylist(), strict=True))
    for row in rows.to_pylist():
        before[row["user"]] = before.get(row["user"], 0) + row["amount"]
    after = [{"user": user, "balance": before[user]} for user in keys.column("user").to_pylist()]
    return pa.Table.from_pylist(after, schema=TOLD), pa.Table.from_pylist(
        [row for row in after if row["balance"]], schema=TOLD
    )


def last_amounts(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """A wrong function: its state depends on which users are processed together."""
    total = sum(rows["amount"].to_pylist())
    after = [{"user": user, "balance": total} for user in keys.column("user").to_pylist()]
    return pa.Table.from_pylist([], schema=TOLD), pa.Table.from_pylist(after, schema=TOLD)


def payments(*amounts: tuple[str, int]) -> Sequence[Row]:
    return [{"user": user, "amount": amount} for user, amount in amounts]


def test_the_reference_finishes_windows_as_spark_does() -> None:
    """A window is emitted once, in the epoch whose watermark reaches its end, with that epoch's rows; later rows are dropped."""
    reference = Reference(WINDOWS)
    assert reference.epoch([event("a", 1, 3), event("a", None, 9), event("a", 4, 12)]) == []
    assert reference.watermark_ms == 7
    assert reference.epoch([event("b", 2, 5), event("b", 2, 15)]) == []
    assert reference.watermark_ms == 10
    finished = reference.epoch([event("b", 4, 9)])
    assert sorted(finished, key=lambda row: str(row["key"])) == [group("a", 0, 2, 1, 1, 1), group("b", 0, 2, 6, 2, 4)]
    assert reference.epoch([event("a", 100, 9)]) == []
    assert set(reference.state) == {("a", 10), ("b", 10)}


def test_a_dataflow_can_be_tested_through_a_rescale_and_failures() -> None:
    """A user's function gives the same result while bins move, a worker loses its disk and the driver dies."""
    cluster = SimulatedCluster(StateFlow(balances, ("user",), ROWS, BALANCE, TOLD), workers=2)
    cluster.epoch(payments(("ann", 5), ("bob", 2)))
    migration = cluster.rescale(3)
    cluster.epoch(payments(("ann", 1), ("bob", -2)))
    cluster.settle()
    assert migration.status == "settled"
    cluster.wipe(0)
    cluster.restart_driver()
    output = cluster.epoch(payments(("bob", 7)))
    assert output == {"state": [{"user": "bob", "balance": 7}]}
    assert cluster.state() == {("ann",): {"balance": 6}, ("bob",): {"balance": 7}}
    assert cluster.route is not None
    assert cluster.route.workers == (0, 1, 2)


def test_a_function_that_depends_on_its_company_is_found_out() -> None:
    """A state function whose result depends on how keys are grouped contradicts the reference."""
    cluster = SimulatedCluster(
        StateFlow(last_amounts, ("user",), ROWS, BALANCE, TOLD, group_bytes_max=10_000), workers=1
    )
    with pytest.raises(Contradiction, match="I5"):
        cluster.epoch(payments(*((f"user {n}", n) for n in range(20))))


def test_windows_end_the_same_on_a_cluster() -> None:
    """Append mode, with late rows and empty epochs, gives the reference's output through a migration."""
    cluster = SimulatedCluster(WINDOWS, workers=1)
    for epoch in range(12):
        if epoch == 4:
            cluster.rescale(3, "Fluid")
        cluster.epoch([event(f"k{n}", n, max(0, epoch * 4 - n)) for n in range(epoch % 3 * 4)])
        cluster.background()
    assert any(rows["totals"] for rows in cluster.outputs.values())


def test_a_fault_strikes_at_its_number() -> None:
    """The same number is the same effect in every run, and the result does not change."""
    runs = []
    for _ in range(2):
        cluster = SimulatedCluster(Totals(), workers=2, faults=Faults(at({40: Fault.KILL})))
        for epoch in range(4):
            cluster.epoch([event(f"k{n}", n * epoch) for n in range(6)])
        runs.append((cluster.world.faults.struck, cluster.world.faults.count))
    assert runs[0] == runs[1]
    assert len(runs[0][0]) == 1


def test_a_worker_that_is_away_holds_the_stream_up() -> None:
    """An epoch that needs a missing worker fails, and continues once the worker has returned."""
    cluster = SimulatedCluster(Totals(), workers=2)
    cluster.epoch([event("a", 1)])
    cluster.away(1)
    with pytest.raises(EpochFailed, match="worker 1"):
        cluster.epoch([event("a", 2)])
    cluster.back(1)
    cluster.epoch([event("a", 4)])
    assert cluster.state()["a",]["sum"] == 7
