"""How commands print what the control API answers: tables, one line of JSON, or a progress bar while bins move."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from binshift.control import models
from binshift.control.load_figures import HotKey
from binshift.hosting.client import ControlClient

Show = Callable[[models.Migration | str], None]
"""Takes a migration, or, before there is one, the text of what is awaited."""


def as_json(value: Any) -> str:
    """Values of the API and of the run's folder, and what is made of them, as one line."""
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", by_alias=True)


def columns(justify: Literal["left", "right"], *names: str) -> Table:
    """An empty table of plain columns, as all these commands show them."""
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in names:
        table.add_column(name, justify=justify, header_style="dim")
    return table


def write(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def dataflow_facts(dataflow: models.Dataflow) -> list[tuple[str, str]]:
    """The state of a dataflow for users, as (name, text)."""
    return [
        ("query", f"{dataflow.name or '(no name)'}: {dataflow.state.value} {dataflow.reason}".rstrip()),
        ("epoch", "none yet" if dataflow.epoch < 0 else f"{dataflow.epoch}, route {dataflow.route_version}"),
        ("workers", f"{dataflow.workers} hold the bins; {dataflow.registered} are registered"),
    ]


def speed_facts(dataflow: models.Dataflow) -> list[tuple[str, str]]:
    """Rates, latency and the newest migration of a dataflow, as (name, text); what is not known is left out."""
    found = list[tuple[str, str]]()
    if dataflow.rates is not None:
        rates = dataflow.rates
        found.append(("rates", f"{rates.epochs_per_second:.1f} epochs/s, {rates.input_rows_per_second:,.0f} rows/s"))
    if dataflow.latency is not None:
        found.append(("latency", f"p50 {dataflow.latency.p50_seconds:.2f} s, p99 {dataflow.latency.p99_seconds:.2f} s"))
    found += [("hot key", hot_key_text(each)) for each in dataflow.hot_keys]
    if dataflow.migration is not None:
        found.append(("migration", migration_text(dataflow.migration)))
    return found


def hot_key_text(key: HotKey) -> str:
    """A short text for a hot key."""
    speed = "" if key.rows_per_second is None else f", {key.rows_per_second:,.0f} rows/s"
    return f"{key.key!r} has {100 * key.share:.2g}% of the rows of {key.operator}{speed}; bin {key.bin} on worker {key.worker}"


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """A line for each fact."""
    table = Table.grid(padding=(0, 2))
    for name, text in facts:
        table.add_row(name, Text(text))  # a key can have brackets, which would be markup
    Console().print(table)


def migration_text(migration: models.Migration) -> str:
    """A short text for a migration."""
    bins = f", {migration.bins_moved}/{migration.bins_total} bins moved" if migration.bins_total is not None else ""
    left = f", {migration.seconds_left:.0f} s left" if migration.seconds_left and migration.ended_at is None else ""
    reason = f" ({migration.reason})" if migration.reason else ""
    return f"{migration.id} {migration.strategy}: {migration.phase}{bins}{left}{reason}"


def print_bins(control: ControlClient, worker: int | None, output: str) -> None:
    """The number of bins by worker, or the single bins of ``worker``."""
    if output == "json":
        bins = list(control.bins(worker))
        write(as_json({"workers": control.workers().workers, "bins": bins}))
        return
    if worker is None:
        table = columns("right", "worker", "registered", "bins", "keys", "bytes", "copies")
        for load in control.workers().workers:
            there = "yes" if load.registered else "no"
            table.add_row(str(load.worker), there, *map(known, (load.bins, load.keys, load.bytes, load.copies)))
    else:
        table = columns("right", "bin", "rows", "bytes", "copies on")
        for each in control.bins(worker):
            copies = " ".join(str(copy.worker) for copy in each.copies)
            table.add_row(str(each.bin), known(each.rows), known(each.bytes), copies)
    Console().print(table)


def known(value: int | None) -> str:
    """A number, or a dash if it is not known."""
    return "-" if value is None else f"{value:,}"


def print_migration(migration: models.Migration | None, output: str, nothing: str) -> None:
    """What a request has begun or changed; ``nothing`` is the text if that is no migration."""
    if output == "json":
        write(as_json({"migration": migration}))
    else:
        write(nothing if migration is None else migration_text(migration))


def print_migrations(control: ControlClient, output: str, hint: str) -> None:
    """The newest migrations; ``hint`` is what begins the first one."""
    found = control.migrations()
    if output == "json":
        write(as_json(found))
    elif not found.migrations:
        write(f"no migration yet; {hint} begins one")
    else:
        Console().print(_table(found.migrations))


@contextmanager
def shown_migrations(output: str) -> Iterator[Show]:
    """How a migration is shown: a line of JSON, a progress bar in a terminal, or a line of text."""
    console = Console()
    if output == "json" or not console.is_terminal:
        lines: list[str] = []

        def line(shown: models.Migration | str) -> None:
            if isinstance(shown, str):
                text = "" if output == "json" else shown
            else:
                text = as_json(shown) if output == "json" else migration_text(shown)
            if text and lines[-1:] != [text]:  # latency changes with each epoch, and is not in a migration's text
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
