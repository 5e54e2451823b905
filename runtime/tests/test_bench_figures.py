"""The pure parts of the benchmarks: latency by due time, silence, targets, tables, and stored results."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import BENCHMARKS, importable

from openloop import Span, percentile

with importable():
    import archive
    import moving
    import tables
    import targets
    from latency import Latencies, committed_at, latencies_of

RATE = 1000


def test_a_bucket_has_its_worst_row() -> None:
    """An epoch's first row has waited longest, and every 250 ms of due time has its own worst row."""
    found = Latencies([Span(first=10.0, last=10.6, committed=11.0)])
    assert found.buckets() == [(10.0, 1.0), (10.25, 0.75), (10.5, 0.5)]


def test_a_bucket_of_two_epochs_has_the_worse_of_them() -> None:
    """If one epoch ends and the next begins inside a bucket, the later commit may be the worse one."""
    found = Latencies([Span(10.0, 10.1, 10.2), Span(10.1, 10.2, 12.0)])
    ((began, worst),) = found.buckets()
    assert began == 10.0
    assert worst == pytest.approx(1.9)


def test_a_standstill_is_seen_by_rows_that_were_due_in_it() -> None:
    """Open loop: rows continue to be due while nothing is read, and their latency counts from then."""
    found = Latencies([Span(0.0, 1.0, 1.5), Span(1.0, 9.0, 9.5)])
    assert max(latency for _, latency in found.buckets()) == pytest.approx(8.5)


def test_rows_under_way_when_it_began_belong_to_the_move() -> None:
    """Rows due before the request and committed after it are not calm."""
    found = Latencies([Span(0.0, 0.2, 0.3), Span(0.25, 0.45, 1.2), Span(0.5, 0.7, 1.3)])
    assert found.calm(0.0, 1.0) == [pytest.approx(0.3)]
    assert found.moving(1.0, 2.0) == [pytest.approx(0.95), pytest.approx(0.8)]


def test_the_longest_silence_may_begin_before_and_end_after() -> None:
    """A pause counts in full if it overlaps with the given time."""
    found = Latencies([Span(0, 0, at) for at in (1.0, 2.0, 5.0, 6.0)])
    assert found.longest_silence(3.0, 4.0) == 3.0
    assert found.longest_silence(5.5, 7.0) == 1.0
    assert math.isnan(found.longest_silence(7.0, 8.0))


def test_the_usual_silence_lies_in_calm_times() -> None:
    """The pause at the start of a move does not count as usual."""
    found = Latencies([Span(0, 0, at) for at in (1.0, 2.0, 5.0, 6.0)])
    assert found.usual_silence(0.5, 4.0) == 1.0
    assert math.isnan(found.usual_silence(3.0, 4.0))


def test_an_epoch_is_skipped_where_silence_is_twice_the_usual() -> None:
    """Epochs that would have fitted into the silence count as skipped; a slightly longer epoch skips none."""
    found = Latencies([Span(0, 0, at) for at in (0.0, 1.0, 2.0, 3.9, 7.9)])
    assert found.skipped(calm=(0.0, 2.0), moving=(2.0, 3.0)) == 0
    assert found.skipped(calm=(0.0, 2.0), moving=(4.0, 7.0)) == 3


def _report(rows: int, start: str | None, end: str, took_ms: int, timestamp: str) -> dict[str, Any]:
    nudge = {"description": "Nudge", "startOffset": None, "endOffset": "7"}
    loop = {"description": "OpenLoopSource", "startOffset": start, "endOffset": end}
    durations = {"triggerExecution": took_ms}
    return {"timestamp": timestamp, "durationMs": durations, "numInputRows": rows, "sources": [loop, nudge]}


def test_due_times_are_read_from_offsets() -> None:
    """Rows after the prefilled ones are due at the source's rate; triggers without rows and other sources are ignored."""
    began = 1_700_000_000
    stamp = "2023-11-14T22:13:22.000Z"  # two seconds after
    reports = [
        _report(500, None, f"[500,{began}000]", 900, stamp),
        _report(1000, f"[500,{began}000]", f"[1500,{began}000]", 500, stamp),
        _report(0, f"[1500,{began}000]", f"[1500,{began}000]", 5, stamp),
    ]
    assert latencies_of(reports, prefill=500, rate=RATE).spans == [Span(began, began + 1.0, began + 2.5)]
    assert committed_at(reports[0]) == began + 2.9


@pytest.mark.parametrize(("q", "expected"), [(0, 1.0), (50, 3.0), (75, 4.0), (100, 9.0)])
def test_percentiles(q: float, expected: float) -> None:
    """A percentile is between its two neighbouring values, in whatever order the values are."""
    assert percentile([3.0, 9.0, 1.0, 4.0, 2.0], q) == expected


def test_a_percentile_of_nothing_is_not_a_number() -> None:
    """The percentile of no values is never 0."""
    assert math.isnan(percentile([], 50))


def test_a_spike_is_over_the_calm_p99() -> None:
    """The spike of a move is its worst latency divided by the 99th percentile before it."""
    spans = [Span(at, at + 0.2, at + 0.5) for at in (0.0, 0.25, 0.5, 0.75)] + [Span(1.0, 1.2, 2.0)]
    row = moving.columns(Latencies(spans), moving.Times(0.0, 1.25, 2.0))
    assert (row["calm_p99_s"], row["moving_max_s"], row["spike"]) == (0.5, 1.0, 2.0)
    assert row["_latency"][-1] == (-0.25, 1.0)


@pytest.mark.parametrize(
    ("figure", "at_least", "met"),
    [(1.25, False, True), (1.26, False, False), (1.24, True, False), (1.25, True, True), (math.nan, False, False)],
)
def test_a_target_is_met_or_not(figure: float, at_least: bool, met: bool) -> None:
    """The bound itself meets the target; a value that is not a number never does, in either direction."""
    assert targets.is_met(figure, targets.Target("x", "x", 1.25, at_least)) is met


def test_verdicts_are_about_the_rows_that_are_meant() -> None:
    """Rows outside a target, or without its figure, get no verdict."""
    rows: list[dict[str, Any]] = [{"n": 1, "x": 2.0}, {"n": 2, "x": 2.0}, {"n": 2, "x": None}]
    target = targets.Target("size", "x", 3, at_least=True, of=lambda row: row["n"] == 2, unit=" s")
    verdict = {"what": "size", "case": "2", "figure": 2.0, "target": ">= 3 s", "met": False}
    assert targets.verdicts(rows, [target], lambda row: str(row["n"])) == [verdict]


def test_a_table_leaves_out_what_is_for_plots() -> None:
    """The columns are those of all rows, in order; columns with an underscore are not shown."""
    rows: list[dict[str, Any]] = [{"a": 1, "_points": [1, 2]}, {"a": 2, "b_s": 0.5}]
    assert tables.text(rows) == "a  b s\n1\n2  0.500"
    assert tables.markdown(rows).splitlines() == ["| a | b s |", "|---|---|", "| 1 |  |", "| 2 | 0.500 |"]
    assert tables.text([]) == "(nothing)"


def test_results_are_kept_by_case(tmp_path: Path) -> None:
    """A repeated case replaces its row and others stay; every row has its date and commit, and the file has its machine."""
    archive.save("x", [{"n": 1, "v": 1}, {"n": 2, "v": 1}], ["n"], tmp_path)
    archive.save("x", [{"n": 1, "v": 2}], ["n"], tmp_path)
    kept = archive.load("x", tmp_path)
    assert [(row["n"], row["v"]) for row in kept] == [(1, 2), (2, 1)]
    assert all(row["_date"] and row["_commit"] for row in kept)
    assert json.loads((tmp_path / "x.json").read_text())["machine"]["cores"] >= 1
    assert archive.load("y", tmp_path) == []


def test_unknown_benchmark_is_refused_by_name() -> None:
    """`make bench BENCH=mov` lists the existing benchmarks."""
    command = [sys.executable, str(BENCHMARKS / "run.py")]
    done = subprocess.run(command, env={"BENCH": "mov"}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no benchmark 'mov'; there are adoption, bins, calm" in done.stderr


def test_the_page_equals_the_results() -> None:
    """The tables of docs/benchmarks.md are those of the stored results."""
    command = [sys.executable, str(BENCHMARKS / "page.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
