"""What NEXMark's runs with moves and kills must prove: a run in which too little happened is not equal."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark_scripts import importable

from binshift.engine.timings import EpochTimings
from binshift.model import Epoch
from binshift.settings import Settings

with importable():
    import targets
    from nexmark import drivers, kills, moves, page, speed
    from nexmark.__main__ import arguments
    from nexmark.config import Config
    from nexmark.inputs import Inputs
    from nexmark.oracle import Oracle
    from nexmark.queries import QUERIES
    from nexmark.results import EPOCH, Results
    from nexmark.suite import RUNS, Suite

STEPS = 10


def epoch(number: int, moved: int, rows: int = 9) -> EpochTimings:
    """An epoch with rows, in which bins moved."""
    return EpochTimings(Epoch(number), 0.0, 1, {}, rows, 0, moved)


@pytest.mark.parametrize(
    ("during", "problems"),
    [
        ([epoch(4, 0), epoch(5, 8)], 0),
        ([epoch(4, 0), epoch(5, 0)], 1),
        ([], 1),
        ([epoch(5, 8, rows=0)], 2),
        ([epoch(8, 4), epoch(STEPS, 4)], 1),
    ],
)
def test_a_move_counts_in_batches_with_rows(during: list[EpochTimings], problems: int) -> None:
    """Bins that did not move, or moved when there were no rows any more, are a problem of the run."""
    found = moves.proof_of("the move", during, STEPS)
    assert len(found.problems) == problems
    assert found.moved == sum(each.moved for each in during if each.epoch < STEPS and each.rows_in)


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]])
def test_each_strategy_moves_out_and_in(names: list[str]) -> None:
    """Over one or two streams, each strategy scales out and in, and every stream does so in turn."""
    made = moves.streams(names)
    assert {(name, workers) for each in made for name, workers in each} == {(n, w) for n in names for w in (4, 3)}
    assert len(made) <= 2
    for each in made:
        assert [workers for _, workers in each] == [4, 3] * (len(each) // 2)
    assert moves.streams([]) == []


BEFORE: dict[str, Any] = {"epochs": [[0, 9, 0], [1, 9, 2]], "workers": [0, 1, 2], "settled": False, "pid": 1}
AFTER: dict[str, Any] = {"epochs": [[2, 9, 2], [3, 0, 0]], "workers": [0, 1, 2, 3], "settled": True, "pid": 2}


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ({}, {}, ""),
        ({"settled": True}, {}, "no move was under way"),
        ({"epochs": [[0, 9, 0]]}, {}, "no move was under way"),
        ({}, {"pid": 1}, "before and after the kill"),
        ({}, {"epochs": [[3, 0, 0]]}, "before and after the kill"),
        ({}, {"workers": [0, 1]}, "did not continue"),
    ],
)
def test_a_killed_driver_leaves_a_move_that_continues(
    before: dict[str, Any], after: dict[str, Any], problem: str
) -> None:
    """There were batches with rows before and after the kill, a move was under way, and another process has completed it."""
    found = drivers.proof_of(BEFORE | before, AFTER | after, steps=3)
    assert [text for text in found.problems if problem not in text] == []
    assert bool(found.problems) is bool(problem)


class Cluster:
    """A cluster without executors."""

    def executor_pids(self, worker: int) -> list[int]:
        """None."""
        return []


def test_queries_lose_their_executor_together() -> None:
    """A stream that has arrived continues when all have; a query that fails does not hold up the others."""
    meeting: Any = kills.Meeting(Cluster(), 2)  # type: ignore[arg-type]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda _: meeting.arrive(), range(2)))
    assert meeting.over.is_set()
    broken: Any = kills.Meeting(Cluster(), 2)  # type: ignore[arg-type]
    broken.give_up()
    with pytest.raises(threading.BrokenBarrierError):
        broken.arrive()
    assert broken.over.is_set()


def test_a_stream_is_held_in_one_batch_after_its_rows() -> None:
    """The rows of the batch are kept before the stream waits."""
    seen: list[Any] = []
    sink = kills.Held(lambda _, number: seen.append(number), lambda number: number == 1, lambda: seen.append("waits"))
    frame: Any = None
    for number in range(3):
        sink(frame, number)
    assert seen == [0, 1, "waits", 2]


def test_runs_with_a_kill_read_the_first_batches(tmp_path: Path) -> None:
    """The beginning of an input has its first files, as old as they were; the oracle counts the events of these batches only."""
    inputs = Inputs(tmp_path, Config(), events=8000, steps=8)
    (tmp_path / "steps").mkdir()
    for step in range(8):
        (tmp_path / "steps" / f"{step:05}.parquet").write_text(str(step))
    first = inputs.beginning(3)
    assert (first.steps, first.events, first.per_step) == (3, 3000, inputs.per_step)
    assert sorted(path.read_text() for path in (first.folder / "steps").iterdir()) == ["0", "1", "2"]
    for kind in ("person", "auction", "bid"):
        (inputs.by_kind / kind).mkdir(parents=True)
        times = pa.array([0, 1, 2], pa.timestamp("us"))
        bids = pa.table({"step": [0, 2, 3], "auction": [1, 2, 3], "price": [7, 7, 7], "dateTime": times})
        pq.write_table(bids, inputs.by_kind / kind / "0.parquet")
    counted = Oracle(first.by_kind, first.steps).expected(QUERIES["q17"])
    assert sorted(counted.column("auction").to_pylist()) == [1, 2]


def test_the_beginning_of_a_run_is_compared_batch_by_batch(tmp_path: Path) -> None:
    """A run of two batches equals the beginning of one of three; without that, its batches without data compare, too."""

    def run(name: str, batches: list[list[int]]) -> Results:
        (tmp_path / name).mkdir()
        for number, values in enumerate(batches):
            rows = pa.table({"v": pa.array(values, pa.int64()), EPOCH: pa.array([number] * len(values), pa.int64())})
            pq.write_table(rows, tmp_path / name / f"{number}.parquet")
        return Results(tmp_path / name)

    whole, beginning = run("whole", [[1], [2, 2], [3]]), run("beginning", [[1], [2, 2], [9]])
    assert not beginning.against_run(whole, 2, beginning=True)
    assert beginning.against_run(whole, 2).missing == 1
    assert run("wrong", [[1], [2, 3]]).against_run(whole, 2, beginning=True).missing == 1


def test_all_runs_of_all_queries_are_the_default() -> None:
    """The command line names what it does not know; runs are in the order of the suite."""
    chosen = arguments(["correct"])
    assert (tuple(chosen.queries), chosen.runs) == (tuple(QUERIES), RUNS)
    assert arguments(["correct", "q5", "--runs", "fluid,calm"]).runs == ("calm", "fluid")
    assert Settings(bins=chosen.bins).bins == chosen.bins
    for wrong in (["q99"], ["--runs", "fast"], ["--bins", "12"]):
        with pytest.raises(SystemExit):
            arguments(["correct", *wrong])


def test_runs_are_counted_for_the_progress() -> None:
    """A query without state runs on Spark only; without the run `calm` there is still one to compare with."""
    queries = [QUERIES["q0"], QUERIES["q17"]]
    assert Suite(queries, RUNS, 32, 2).count() == 2 + 1 + len(RUNS) - 1
    assert Suite(queries, ("fluid",), 32, 2).count() == 2


def test_the_page_has_a_line_for_each_query() -> None:
    """Runs that are missing stay empty, and what moved is added up."""
    rows = [
        {"query": "q17", "system": "spark", "verdict": "equal", "rows": 7},
        {"query": "q17", "system": "fluid", "verdict": "differs", "rows": 7, "moved": 24, "meanwhile": 30},
        {"query": "q0", "system": "spark", "verdict": "equal", "rows": 9, "moved": None, "meanwhile": None},
    ]
    first, second = page.verdicts(rows)
    assert (first["query"], first["moved"], first["fluid"]) == ("q0", None, None)
    assert (second["spark"], second["fluid"], second["batched"], second["moved"]) == ("equal", "differs", None, 24)


def test_the_page_equals_the_results() -> None:
    """The tables of docs/nexmark.md are those of the stored results."""
    assert page.write(check=True) == 0


def test_speeds_are_compared_over_the_same_events() -> None:
    """A ratio is of events by seconds of all measured batches; each kind of query has its own target."""
    before, after = speed.Measured(1000, (0.25, 0.75)), speed.Measured(1000, (0.5, 0.5))
    half, one = before.joined(after), speed.Measured(1000, (1.0, 1.5, 0.5))
    rows = [speed.row_of("q5", one, half), speed.row_of("q4", one, half)]
    assert [(row["spark"], row["binshift"], row["ratio"]) for row in rows] == [(1000.0, 2000.0, 2.0)] * 2
    verdicts = targets.verdicts(rows, speed.TARGETS, speed.named)
    assert [(each["case"], each["target"], each["met"]) for each in verdicts] == [
        ("q5", ">= 1", True),
        ("q4", ">= 5", False),
    ]
    shown = page.speeds(rows)
    assert shown.index("| q4 |") < shown.index("| q5 |")
    assert "| 2,000 | 1,000 |" in shown


def test_the_speed_of_queries_with_state_is_compared() -> None:
    """The others are Spark's on both."""
    chosen = arguments(["speed"]).queries
    assert chosen == [query.name for query in QUERIES.values() if query.state]
