"""Stateful operators beyond the aggregate, next to Spark's own in the same session.

- *chains*: calm epochs of one, two and three stages, and of NEXMark's query 5, open loop; its compilation and planning.
- *rows per second*: batches of a fixed number of rows without pauses: a join by key and time range, deduplication, sessions.
- *eviction*: epochs in which the watermark ends a hundredth of a join's rows, and the epochs between, which end none.
- *move*: the join's state, open loop, from two warm workers to four and back, several times.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from archive import save
from latency import latencies_of
from measuring import Bench, System, Turn, await_batch, bench, measured, take_turns
from moving import SETTLE_SECONDS, Times, columns
from operator_queries import Query, chain, evicting, hottest, range_join, started, throughputs
from options import WATCH, parsed, parser
from tables import text
from targets import Row, Target, verdicts

from binshift.spark.plan.template import Templates
from binshift.spark.session.jvm import install
from binshift.spark.stages.compiling import compile_program
from openloop import percentile

ENGINES = ("spark", "binshift")
CHAINS = ("one stage", "two stages", "three stages", "NEXMark query 5")
MOVE_SECONDS_MAX = 300.0
AGGREGATE_PLAN_MS = 39.0
"""Planning an epoch of one aggregate, p50 on a quiet machine, when a program could have only one (`bench_epoch`)."""
HOT_KEYS = 1000
"""Keys of NEXMark's query 5: its auctions are open for a short time. With 100,000, Spark falls behind the source."""
SETTLE_BATCHES = 4
"""Unmeasured batches of a turn without pauses."""


def is_case(*names: str) -> Any:
    """Whether a row is binshift's of one of these cases."""
    return lambda row: row["case"] in names and row["engine"] == "binshift"


TARGETS = (
    Target("calm epoch over that of one stage", "over_one", 1.6, of=is_case("two stages")),
    Target("calm epoch over that of one stage", "over_one", 2.2, of=is_case("three stages")),
    Target("rows a second", "rows_per_s", 100_000, True, is_case("inner range join")),
    Target("rows a second", "rows_per_s", 150_000, True, is_case("dropDuplicates, kept", "dropDuplicates, by time")),
    Target("rows a second over Spark's", "over_spark", 1.0, True, lambda row: "rows_per_s" in row),
    Target("epoch that ends 1 % of the state over one that ends none", "over_none", 1.2),
    Target("seconds to compile", "compile_s", 1.0, of=is_case("NEXMark query 5"), unit=" s"),
    Target("planning an epoch", "plan_ms", AGGREGATE_PLAN_MS, of=is_case("NEXMark query 5"), unit=" ms"),
    Target("spike of the median move: worst record over the larger calm p99", "spike", 1.25),
    Target("epochs skipped in all moves", "skipped", 0),
)


def main() -> None:
    """Measure the parts one after the other; print each table, and the targets."""
    made = parser(__doc__)
    made.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="what is measured")
    made.add_argument("--keys", type=int, default=100_000, help="keys of chains, joins and sessions")
    made.add_argument("--rate", type=int, default=10_000, help="rows due per second, or per second of event time")
    made.add_argument("--batch", type=int, default=100_000, help="rows per batch, where batches follow without pauses")
    made.add_argument("--stored", type=int, default=4_000_000, help="rows of the join state of which some end")
    made.add_argument("--bins", type=int, default=4096)
    made.add_argument("--turns", type=int, default=2, help="turns of each system")
    made.add_argument("--seconds", type=float, default=5.0, help="seconds of a turn")
    made.add_argument("--warm-seconds", type=float, default=10.0, help="unmeasured seconds before a part's first turn")
    made.add_argument("--calm-seconds", type=float, default=12.0, help="measured seconds before and after a move")
    made.add_argument("--moves", type=int, default=5, help="measured moves of the join's state")
    quick = {"keys": 1000, "rate": 1000, "batch": 2000, "stored": 80_000, "bins": 64, "turns": 1, "seconds": 2.0}
    args = parsed(made, quick | {"warm_seconds": 1.0, "calm_seconds": 2.0, "moves": 1})
    rows: list[Row] = []
    for workers, parts in ((2, ("chains", "rows", "eviction")), (4, ("move",))):
        wanted = [name for name in parts if name in args.part]
        if not wanted:
            continue
        with bench(workers) as running:
            for name in wanted:
                found = PARTS[name](running, args)
                print(text(found), flush=True)
                rows += found
                if not args.quick:
                    save("operators", found, ["case", "engine"], elsewhere=WATCH.cores())
    print(text([{"what": line.pop("what"), **line} for line in verdicts(rows, TARGETS, named)]))


def systems(running: Bench, queries: Mapping[str, Query], args: Namespace) -> dict[str, System]:
    """Each query on each engine; the source is part of the query."""

    def system(query: Query, engine: str) -> System:
        return lambda _: started(running, query(), engine, args.bins)

    return {f"{name}/{engine}": system(query, engine) for name, query in queries.items() for engine in ENGINES}


def turns_of(running: Bench, queries: Mapping[str, Query], args: Namespace, settle: int) -> dict[str, Turn]:
    """All of them in turn; the last query, which has the most in it, runs on both engines before."""
    given = systems(running, queries, args)
    return take_turns(
        given,
        partial(running.stream, keys=1),  # not used: the queries have sources of their own
        turns=args.turns,
        seconds=args.seconds,
        warm=[name for name in given if name.startswith(f"{list(queries)[-1]}/")],
        warm_seconds=args.warm_seconds,
        settle_epochs=settle,
    )


def chains(running: Bench, args: Namespace) -> list[Row]:
    """Calm epochs of chains, with the time to plan them, and to compile the last."""
    queries: dict[str, Query] = {
        name: partial(chain, running, stages, args.keys, args.rate) for stages, name in enumerate(CHAINS[:3], 1)
    }
    queries[CHAINS[3]] = partial(hottest, running, HOT_KEYS, args.rate)
    found = turns_of(running, queries, args, settle=8)
    rows: list[Row] = []
    for name in queries:
        for engine in ENGINES:
            turn, one = found[f"{name}/{engine}"], found[f"{CHAINS[0]}/{engine}"]
            row: Row = {"case": name, "engine": engine, "epochs": len(turn.seconds)}
            row |= {"p50_s": percentile(turn.seconds, 50)}
            row |= {"p99_s": percentile(turn.seconds, 99), "over_one": row["p50_s"] / percentile(one.seconds, 50)}
            if turn.parts:
                plan, first = (percentile([each["plan"] for each in some.parts], 50) for some in (turn, one))
                row |= {"plan_ms": 1000 * plan, "plan_over_one": plan / first}
                row |= {"compile_s": compiled(running, queries[name]())}
            rows.append(row)
    return rows


def compiled(running: Bench, query: Any) -> float:
    """Seconds to compile a program, in a session that has compiled before."""
    templates = Templates(running.spark, install(running.spark))
    began = time.perf_counter()
    compile_program(query, templates, "append", 4096)
    return time.perf_counter() - began


def per_second(running: Bench, args: Namespace) -> list[Row]:
    """Rows per second of each operator."""
    queries = throughputs(running, args.keys, args.batch, args.rate)
    found = turns_of(running, queries, args, settle=SETTLE_BATCHES)
    rows: list[Row] = []
    for name in queries:
        turns = {engine: found[f"{name}/{engine}"] for engine in ENGINES}
        speed = {
            engine: sum(each["numInputRows"] for each in turn.progress) / sum(turn.seconds)
            for engine, turn in turns.items()
        }
        for engine, turn in turns.items():
            row = {"case": name, "engine": engine, "epochs": len(turn.seconds), "p50_s": percentile(turn.seconds, 50)}
            row |= {"rows_per_s": speed[engine]}
            rows.append(row | ({"over_spark": speed[engine] / speed["spark"]} if engine == "binshift" else {}))
    return rows


def eviction(running: Bench, args: Namespace) -> list[Row]:
    """Epochs that end a portion of the state, over those between. Spark would read all of the state in both."""
    query = started(running, evicting(running, args.stored, args.batch), "binshift", args.bins)
    turn = measured(query, 4 * args.seconds, settle_epochs=12, epochs_min=10)
    ending = [each for each in turn.progress if each["stateOperators"][0]["numRowsRemoved"]]
    none = [each for each in turn.progress if not each["stateOperators"][0]["numRowsRemoved"]]
    times = [[each["durationMs"]["triggerExecution"] / 1000 for each in some] for some in (ending, none)]
    p50, base = (percentile(each, 50) for each in times)
    row: Row = {"case": f"{args.stored:,} rows, 1 % ends", "engine": "binshift", "epochs": len(ending), "p50_s": p50}
    row |= {"none_s": base, "over_none": p50 / base, "ended": ending[-1]["stateOperators"][0]["numRowsRemoved"]}
    return [row | {"us_per_ended": 1e6 * (p50 - base) / row["ended"]}]


def move(running: Bench, args: Namespace) -> list[Row]:
    """The join from two workers to four, once unmeasured; the row is the median move, with the worst spike of all."""
    rate = args.rate // 2
    query = started(running, range_join(running, args.keys, seconds=30, rate=rate), "binshift", args.bins)
    await_batch(query, 12)
    time.sleep(2 * args.warm_seconds)
    times: list[Times] = []
    for measured_move in range(args.moves + 1):
        if measured_move:
            times.append(_one_move(query, args.calm_seconds))
        else:
            query.rescale(4).wait(MOVE_SECONDS_MAX)
        query.rescale(2).wait(MOVE_SECONDS_MAX)
        time.sleep(args.warm_seconds / 2)
    stored = query.lastProgress["stateOperators"][0]["numRowsTotal"]
    query.stop()
    found = latencies_of(query.recentProgress, 0, rate)
    moves = sorted((columns(found, each) for each in times), key=lambda each: float(each["spike"]))
    worst = {"worst_spike": moves[-1]["spike"], "skipped": sum(each["skipped"] for each in moves), "moves": len(moves)}
    row = {"case": "inner range join, 2 to 4", "engine": "binshift", "stored": stored}
    return [row | moves[len(moves) // 2] | worst]


def _one_move(query: Any, calm_seconds: float) -> Times:
    """From two workers to four, between two calm times."""
    calm_from = time.time()
    time.sleep(calm_seconds)
    began = time.time()
    query.rescale(4).wait(MOVE_SECONDS_MAX)
    ended = time.time()
    time.sleep(SETTLE_SECONDS + calm_seconds)
    return Times(calm_from, began, ended, time.time())


PARTS = {"chains": chains, "rows": per_second, "eviction": eviction, "move": move}


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{row['case']}, {row['engine']}"


if __name__ == "__main__":
    main()
