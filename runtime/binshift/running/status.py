"""`binshift status`: one look at a run, its dataflow, and what is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from binshift.control import models
from binshift.rescale import Awaiting
from binshift.running.directory import DesiredScale, ScaleStatus
from binshift.running.options import as_json, opened, parser, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Show it; returns the exit status."""
    given = parser("status", "Show what a run is doing.").parse_args(arguments)
    directory, control = opened(given.run)
    run, wish, verdict, dataflow = directory.run, directory.wish, directory.verdict, control.dataflow()
    if given.output == "json":
        shown = {"name": run.name, "pid": run.pid, "program": run.program, "cluster": run.cluster, "url": run.url}
        write(as_json({"run": shown, "wish": wish, "verdict": verdict, "dataflow": dataflow}))
        return 0
    table = Table.grid(padding=(0, 2))
    for name, text in [("run", f"{run.name}  ({run.program})"), *facts(dataflow, wish, verdict)]:
        table.add_row(name, text)
    Console().print(table)
    return 0


AWAITED = {
    Awaiting.RUNTIME: "waiting for the program's query to run, and for its first epoch",
    Awaiting.OTHER_OWNER: "the target belongs to another owner",
    Awaiting.GENERATION: "the query has a newer target; asking again",
    Awaiting.REGISTRATION: "waiting for workers {} to register with Spark",
    Awaiting.MIGRATION: "bins are moving",
    Awaiting.HOLD: "waiting one more epoch, before workers {} end",
    Awaiting.BINS: "workers {} still hold bins",
}
"""What is awaited, for people; the braces are the workers it is about."""


def facts(dataflow: models.Dataflow, wish: DesiredScale, verdict: ScaleStatus | None) -> list[tuple[str, str]]:
    """What a person wants to know, as (name, text)."""
    found = [
        ("query", f"{dataflow.name or '(no name)'}: {dataflow.state.value} {dataflow.reason}".rstrip()),
        ("epoch", "none yet" if dataflow.epoch < 0 else f"{dataflow.epoch}, route {dataflow.route_version}"),
        ("workers", f"{dataflow.workers} hold the bins; {dataflow.registered} are registered"),
        ("asked for", f"{wish.count} workers (generation {wish.generation})"),
    ]
    if verdict is not None and verdict.refused:
        found.append(("refused", verdict.refused))
    elif awaited := awaited_text(verdict):
        found.append(("now", awaited))
    if dataflow.rates is not None:
        rates = dataflow.rates
        found.append(("rates", f"{rates.epochs_per_second:.1f} epochs/s, {rates.input_rows_per_second:,.0f} rows/s"))
    if dataflow.latency is not None:
        found.append(("latency", f"p50 {dataflow.latency.p50_seconds:.2f} s, p99 {dataflow.latency.p99_seconds:.2f} s"))
    if dataflow.migration is not None:
        found.append(("migration", migration_text(dataflow.migration)))
    return found


def awaited_text(verdict: ScaleStatus | None) -> str:
    """What the supervisor waits for, for people; empty if for nothing."""
    if verdict is None or verdict.refused or not verdict.awaiting:
        return ""
    known = {each.value: text for each, text in AWAITED.items()}
    return known.get(verdict.awaiting, verdict.awaiting).format(", ".join(map(str, verdict.workers)))


def migration_text(migration: models.Migration) -> str:
    """A migration in a few words."""
    bins = f", {migration.bins_moved}/{migration.bins_total} bins moved" if migration.bins_total is not None else ""
    left = f", {migration.seconds_left:.0f} s left" if migration.seconds_left and migration.ended_at is None else ""
    reason = f" ({migration.reason})" if migration.reason else ""
    return f"{migration.id} {migration.strategy}: {migration.phase}{bins}{left}{reason}"
