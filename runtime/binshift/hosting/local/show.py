"""The commands that show a run: `binshift status`, `binshift bins` and `binshift migrations`. They change nothing.

Each is a function that takes the command line and returns the exit status. ``migrations --watch`` stays until nothing moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from binshift.control import models
from binshift.hosting.local.client import ControlClient
from binshift.hosting.local.directory import DesiredScale, RunDirectory, ScaleStatus
from binshift.hosting.local.options import as_json, columns, open_run, parser, settled, write
from binshift.model import Worker
from binshift.rescale import Awaiting

POLL_SECONDS: Final = 0.2

Show = Callable[[models.Migration | str], None]
"""Takes a migration, or, before there is one, the text of what is awaited."""

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


def status(arguments: Sequence[str] | None = None) -> int:
    """Show it; returns the exit status."""
    given = parser("status", "Show what a run is doing.").parse_args(arguments)
    directory, control = open_run(given.run)
    run, scale, status, dataflow = directory.run, directory.desired_scale, directory.scale_status, control.dataflow()
    if given.output == "json":
        shown = {"name": run.name, "pid": run.pid, "program": run.program, "cluster": run.cluster, "url": run.url}
        write(as_json({"run": shown, "desiredScale": scale, "scaleStatus": status, "dataflow": dataflow}))
        return 0
    table = Table.grid(padding=(0, 2))
    for name, text in [("run", f"{run.name}  ({run.program})"), *facts(dataflow, scale, status)]:
        table.add_row(name, text)
    Console().print(table)
    return 0


def facts(dataflow: models.Dataflow, scale: DesiredScale, status: ScaleStatus | None) -> list[tuple[str, str]]:
    """The status for users, as (name, text)."""
    found = [
        ("query", f"{dataflow.name or '(no name)'}: {dataflow.state.value} {dataflow.reason}".rstrip()),
        ("epoch", "none yet" if dataflow.epoch < 0 else f"{dataflow.epoch}, route {dataflow.route_version}"),
        ("workers", f"{dataflow.workers} hold the bins; {dataflow.registered} are registered"),
        ("requested", f"{scale.count} workers (generation {scale.generation})"),
    ]
    if status is not None and status.refused:
        found.append(("refused", status.refused))
    elif awaited := awaited_text(status):
        found.append(("now", awaited))
    if dataflow.rates is not None:
        rates = dataflow.rates
        found.append(("rates", f"{rates.epochs_per_second:.1f} epochs/s, {rates.input_rows_per_second:,.0f} rows/s"))
    if dataflow.latency is not None:
        found.append(("latency", f"p50 {dataflow.latency.p50_seconds:.2f} s, p99 {dataflow.latency.p99_seconds:.2f} s"))
    if dataflow.migration is not None:
        found.append(("migration", migration_text(dataflow.migration)))
    return found


def awaited_text(status: ScaleStatus | None) -> str:
    """What the supervisor waits for, for people; empty if for nothing."""
    if status is None or status.refused or not status.awaiting:
        return ""
    known = {each.value: text for each, text in AWAITED.items()}
    return known.get(status.awaiting, status.awaiting).format(", ".join(map(str, status.workers)))


def migration_text(migration: models.Migration) -> str:
    """A short text for a migration."""
    bins = f", {migration.bins_moved}/{migration.bins_total} bins moved" if migration.bins_total is not None else ""
    left = f", {migration.seconds_left:.0f} s left" if migration.seconds_left and migration.ended_at is None else ""
    reason = f" ({migration.reason})" if migration.reason else ""
    return f"{migration.id} {migration.strategy}: {migration.phase}{bins}{left}{reason}"


def bins(arguments: Sequence[str] | None = None) -> int:
    """Show them; returns the exit status."""
    parsing = parser("bins", "Show which worker holds how many bins. Keys and bytes are estimates, from snapshots.")
    parsing.add_argument("--worker", type=_slot, metavar="W", help="show the single bins of this worker")
    given = parsing.parse_args(arguments)
    _, control = open_run(given.run)
    if given.output == "json":
        bins = list(control.bins(given.worker))
        write(as_json({"workers": control.workers().workers, "bins": bins}))
        return 0
    if given.worker is None:
        table = columns("right", "worker", "registered", "bins", "keys", "bytes", "copies")
        for load in control.workers().workers:
            there = "yes" if load.registered else "no"
            table.add_row(str(load.worker), there, *map(_known, (load.bins, load.keys, load.bytes, load.copies)))
    else:
        table = columns("right", "bin", "rows", "bytes", "copies on")
        for each in control.bins(given.worker):
            copies = " ".join(str(copy.worker) for copy in each.copies)
            table.add_row(str(each.bin), _known(each.rows), _known(each.bytes), copies)
    Console().print(table)
    return 0


def _slot(text: str) -> Worker:
    return Worker(int(text))


def _known(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def migrations(arguments: Sequence[str] | None = None) -> int:
    """Show them; returns the exit status."""
    parsing = parser("migrations", "Show the migrations of a run, the newest last.")
    parsing.add_argument("--watch", action="store_true", help="watch until the requested scale has settled")
    given = parsing.parse_args(arguments)
    directory, control = open_run(given.run)
    if given.watch:
        with _shown(given.output) as show:
            watch(directory, control, show, time.sleep)
        return 0
    found = control.migrations()
    if given.output == "json":
        write(as_json(found))
    elif not found.migrations:
        write("no migration yet; `binshift scale N` begins one")
    else:
        Console().print(_table(found.migrations))
    return 0


def watch(directory: RunDirectory, control: ControlClient, show: Show, pause: Callable[[float], None]) -> None:
    """Show what is awaited and the newest migration, whenever they have changed, until the requested scale has settled.

    Raises:
        MigrationRefused, RunFailed: it will not.
    """
    before: models.Migration | None = None
    shown_text = ""
    while True:
        scale, seen = directory.desired_scale, control.dataflow()
        moving = seen.migration is not None and seen.migration.ended_at is None
        done = directory.desired_scale == scale and settled(directory, seen, scale)
        # A migration that had ended before the watch began is not the requested one.
        if seen.migration is not None and seen.migration != before and (moving or done or before is not None):
            before = seen.migration
            show(before)
        awaited = awaited_text(directory.scale_status)
        if not moving and awaited and awaited != shown_text:
            shown_text = awaited
            show(f"{scale.count} workers: {awaited}")
        if done:
            return
        pause(POLL_SECONDS)


@contextmanager
def _shown(output: str) -> Iterator[Show]:
    """How a migration is shown: a line of JSON, a progress bar in a terminal, or a line of text."""
    console = Console()
    if output == "json":
        yield lambda shown: None if isinstance(shown, str) else write(as_json(shown))
    elif not console.is_terminal:
        lines: list[str] = []

        def line(shown: models.Migration | str) -> None:
            text = shown if isinstance(shown, str) else migration_text(shown)
            if lines[-1:] != [text]:  # latency changes with each epoch, and is not in the text
                lines.append(text)
                write(text)

        yield line
    else:
        parts = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*parts, console=console) as progress:
            tasks = {}

            def show(migration: models.Migration | str) -> None:
                if isinstance(migration, str):
                    console.print(migration)
                    return
                if migration.id not in tasks:
                    tasks[migration.id] = progress.add_task("", total=None, left="")
                name = f"migration {migration.id}: {migration.phase}"
                seconds = migration.seconds_left
                left = "" if seconds is None or migration.ended_at else f"{seconds:.0f} s left"
                bins, total = migration.bins_moved or 0, migration.bins_total
                progress.update(tasks[migration.id], description=name, completed=bins, total=total, left=left)

            yield show


def _table(migrations: Sequence[models.Migration]) -> Table:
    names = ("id", "workers", "strategy", "phase", "bins", "p99 before", "p99 during", "reason")
    table = columns("left", *names)
    for each in migrations:
        workers = "" if each.workers is None else " ".join(map(str, each.workers))
        bins = "-" if each.bins_total is None else f"{each.bins_moved}/{each.bins_total}"
        latency = (_p99(each.latency_before), _p99(each.latency_during))
        table.add_row(str(each.id), workers, each.strategy, each.phase, bins, *latency, each.reason)
    return table


def _p99(latency: models.Latency | None) -> str:
    return "-" if latency is None else f"{latency.p99_seconds:.2f} s"
