"""`binshift migrations`: what has moved and what moves; ``--watch`` stays until nothing moves, with a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from binshift.control import models
from binshift.running.client import ControlClient
from binshift.running.directory import RunDirectory
from binshift.running.options import as_json, columns, opened, parser, settled, write
from binshift.running.status import awaited_text, migration_text

POLL_SECONDS: Final = 0.2

Show = Callable[[models.Migration | str], None]
"""Takes a migration, or in words what is awaited before there is one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Show them; returns the exit status."""
    parsing = parser("migrations", "Show the migrations of a run, the newest last.")
    parsing.add_argument("--watch", action="store_true", help="stay until what is asked for has settled")
    given = parsing.parse_args(arguments)
    directory, control = opened(given.run)
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
    """Show what is awaited and the newest migration, whenever they have changed, until what is asked for has settled.

    Raises:
        MigrationRefused, RunFailed: it will not.
    """
    before: models.Migration | None = None
    said = ""
    while True:
        wish, seen = directory.wish, control.dataflow()
        moving = seen.migration is not None and seen.migration.ended_at is None
        done = directory.wish == wish and settled(directory, seen, wish)
        # One that had ended before anybody watched is not what is watched for.
        if seen.migration is not None and seen.migration != before and (moving or done or before is not None):
            before = seen.migration
            show(before)
        awaited = awaited_text(directory.verdict)
        if not moving and awaited and awaited != said:
            said = awaited
            show(f"{wish.count} workers: {awaited}")
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
