"""What the demo measured, as numbers to keep (JSON) and as lines to read.

Latency during a change is that of the rows which were due between the request and the time when all was settled, the start of
processes included; calm is all the rest. Ratios compare within one run; absolute figures depend as much on the machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flights_demo.latency_log import LatencyLog
from flights_demo.replay import Schedule
from flights_demo.scenario import Step
from flights_demo.screen import seconds_text
from openloop import Latency, longest_gap


@dataclass(frozen=True)
class Change:
    """One change in the number of workers, measured. Times are seconds after the replay began."""

    name: str
    asked_at: float
    settled_at: float
    bins: int
    latency: Latency


@dataclass(frozen=True)
class Report:
    """One run of the demo.

    Attributes:
        rows: flights replayed.
        seconds: of the replay.
        rate: flights due in a second.
        epochs: committed.
        longest_gap_seconds: between two commits, while rows were due.
        calm: latency of rows outside all changes.
        changes: in their order.
        keys: of the final state.
        differences: between the final state and pandas' answer.
    """

    rows: int
    seconds: float
    rate: float
    epochs: int
    longest_gap_seconds: float
    calm: Latency
    changes: tuple[Change, ...]
    keys: int
    differences: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the final state is pandas' answer."""
        return not self.differences


def measure(
    schedule: Schedule, log: LatencyLog, steps: Sequence[Step], keys: int, differences: Sequence[str]
) -> Report:
    """The report of a replay that has ended."""
    spans = [step.span for step in steps if step.span is not None]
    changes = tuple(
        Change(step.name, *step.span, step.bins, log.between([step.span])) for step in steps if step.span is not None
    )
    commits = [entry.at for entry in log.entries if entry.rows and entry.at > 0]
    return Report(
        rows=schedule.rows,
        seconds=schedule.seconds,
        rate=schedule.rate,
        epochs=len(log.entries),
        longest_gap_seconds=longest_gap(commits),
        calm=log.outside(spans),
        changes=changes,
        keys=keys,
        differences=tuple(differences),
    )


def lines(report: Report) -> list[str]:
    """The report as text; the last line is the verdict: whether the result is right."""
    text_lines = [
        (
            f"{report.rows:,} flights in {report.seconds:.0f} s, {report.epochs} epochs, never longer than "
            f"{seconds_text(report.longest_gap_seconds)} without a commit"
        ),
        f"latency calm             {_latency(report.calm)}",
    ]
    for change in report.changes:
        took = f"{change.bins} bins in {change.settled_at - change.asked_at:.1f} s"
        text_lines.append(f"latency {change.name:16s} {_latency(change.latency)}   ({took}, from the request on)")
    if report.right:
        text_lines.append(f"RIGHT: all {report.keys:,} keys equal pandas' answer over the same {report.rows:,} flights")
    else:
        text_lines += [f"  {difference}" for difference in report.differences]
        text_lines.append(f"WRONG: the final state is not pandas' answer over the same {report.rows:,} flights")
    return text_lines


def _latency(latency: Latency) -> str:
    return f"p50 {seconds_text(latency.p50)}   p99 {seconds_text(latency.p99)}   max {seconds_text(latency.max)}"


def write_json(report: Report, log: LatencyLog, path: Path) -> None:
    """Write the report and latency over time; a number that is not there is null."""
    buckets = log.buckets()
    over_time = {name: values.tolist() for name, values in asdict(buckets).items()}
    epochs = [asdict(entry) for entry in log.entries]
    value = asdict(report) | {"right": report.right, "buckets": over_time, "entries": epochs}
    path.write_text(json.dumps(_finite(value), indent=1) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
