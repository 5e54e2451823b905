"""The time of a calm epoch, part by part; the parts add up to the epoch.

Measured once the JVMs are warm, after some hundred epochs: before, planning alone takes ten times as long. A task's parts
are the slowest worker's. *(Spark)* is what any query pays; *rest of the job* is reading, the exchange, scheduling, and the
transfer of rows into Python and out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archive import save
from counting import binshift_count
from measuring import bench, measured
from options import WATCH, parsed, parser
from tables import text

from openloop import percentile

SPARKS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
TASKS = ("task_bring_up", "task_process", "task_delta", "task_commit")


def main() -> None:
    """Run one query until it is warm, then profile it."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=100_000, help="keys in the state")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second")
    made.add_argument("--bins", type=int, default=4096)
    made.add_argument("--warm-epochs", type=int, default=400, help="unmeasured")
    made.add_argument("--seconds", type=float, default=30.0, help="measured")
    args = parsed(made, {"keys": 1000, "rate": 1000, "seconds": 3.0, "warm_epochs": 8})
    with bench(2) as running:
        stream = running.stream(keys=args.keys, prefill=args.keys, rate=args.rate)
        turn = measured(binshift_count(running, stream, args.bins), args.seconds, settle_epochs=args.warm_epochs)
    rows = table_of([parts_of(*both) for both in zip(turn.progress, turn.parts, strict=True)])
    print(text(rows))
    if not args.quick:
        save("epoch", rows, ["part"], elsewhere=WATCH.cores())


def parts_of(progress: Mapping[str, Any], parts: Mapping[str, float]) -> dict[str, float]:
    """One epoch in milliseconds, by parts that add up to it."""
    took = {name: float(progress["durationMs"].get(name, 0)) for name in (*SPARKS, "triggerExecution")}
    ours = {name: seconds * 1000 for name, seconds in parts.items()}
    tasks = [ours.get(name, 0.0) for name in TASKS]
    return {
        "offset log, before (Spark)": took["latestOffset"] + took["walCommit"] + took["getBatch"],
        "planning the batch (Spark)": took["queryPlanning"],
        "planning the epoch: routes, the plan in Catalyst": ours["plan"],
        "task: bins brought up": tasks[0],
        "task: S, the counting, with its wait for rows": tasks[1],
        "task: delta to the log": tasks[2],
        "task: commit of the store": tasks[3],
        "rest of the job": ours["job"] - sum(tasks),
        "the epoch's record": ours["record"],
        "rest of foreachBatch: way to Python, offsets, executors": took["addBatch"]
        - ours["plan"]
        - ours["job"]
        - ours["record"],
        "commit log, after (Spark)": took["commitOffsets"],
        "rest of the trigger (Spark)": took["triggerExecution"] - sum(took[name] for name in SPARKS),
        TOTAL: took["triggerExecution"],
    }


TOTAL = "the epoch"


def table_of(epochs: Sequence[Mapping[str, float]]) -> list[dict[str, object]]:
    """A row for each part; shares are of the mean, so that they add up."""
    whole = sum(epoch[TOTAL] for epoch in epochs)
    return [
        {
            "part": part,
            "share": f"{100 * sum(epoch[part] for epoch in epochs) / whole:.0f} %",
            "mean_ms": sum(epoch[part] for epoch in epochs) / len(epochs),
            "p50_ms": percentile([epoch[part] for epoch in epochs], 50),
            "p99_ms": percentile([epoch[part] for epoch in epochs], 99),
        }
        for part in epochs[0]
    ]


if __name__ == "__main__":
    main()
