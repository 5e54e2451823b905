"""The output while the demo runs: a live table in a terminal, plain lines elsewhere.

A `View` is one moment, as plain values; `table` and `line` are pure functions of it. Times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from openloop import Latency

LINE_EVERY_SECONDS = 2.0
"""Between two lines where there is no terminal."""

BAR_WIDTH = 32


@dataclass(frozen=True)
class Move:
    """A migration that is under way.

    Attributes:
        name: "2 → 4 workers".
        phase: of the migration.
        moved: bins in their places.
        copied: bins that are ready to go.
        total: bins that have to move; 0 while this is not known.
        seconds: since the request.
    """

    name: str
    phase: str
    moved: int
    copied: int
    total: int
    seconds: float


@dataclass(frozen=True)
class View:
    """One moment.

    Attributes:
        seconds: after the replay began.
        rows, rows_total: committed, and of the whole replay.
        rate: rows committed per second, recently.
        epoch: the newest recorded one.
        latency: of recently committed rows.
        bins: by worker, from slot 0 on.
        wanted: the number of workers requested.
        running: slots that have a process.
        move: None when nothing moves.
        routes: name, flights, mean delay in minutes of the worst ones.
    """

    seconds: float
    rows: int
    rows_total: int
    rate: float
    epoch: int
    latency: Latency
    bins: tuple[int, ...]
    wanted: int
    running: tuple[int, ...]
    move: Move | None
    routes: Sequence[tuple[str, int, float]] = ()


def seconds_text(value: float) -> str:
    """A latency for people.

    >>> seconds_text(0.34567), seconds_text(math.nan)
    ('0.35 s', '-')
    """
    return "-" if math.isnan(value) else f"{value:.2f} s"


def line(view: View) -> str:
    """The moment in one line."""
    move = "" if view.move is None else f"  |  {view.move.name}: {view.move.phase}, {_bins_text(view.move)}"
    bins = " ".join(str(count) for count in view.bins)
    return (
        f"{view.seconds:6.1f} s  epoch {view.epoch:4d}  {view.rows:,}/{view.rows_total:,} flights  {view.rate:6,.0f}/s  "
        f"latency p50 {seconds_text(view.latency.p50)} p99 {seconds_text(view.latency.p99)}  bins {bins}{move}"
    )


def table(view: View) -> Group:
    """The moment as tables."""
    head = Table.grid(padding=(0, 2))
    head.add_row("flights", _bar(view.rows, view.rows_total, "cyan"), f"{view.rows:,} of {view.rows_total:,}")
    if view.move is None:
        head.add_row("migration", Text("none", style="dim"), "")
    else:
        bar = _bar(view.move.moved, view.move.total, "magenta")
        head.add_row(Text(view.move.name, style="bold magenta"), bar, f"{view.move.phase}, {_bins_text(view.move)}")
    return Group(head, _figures(view), _workers(view), _routes(view))


def _bins_text(move: Move) -> str:
    if not move.total:
        return f"{move.seconds:.0f} s"
    return f"{move.moved}/{move.total} bins moved, {move.copied} copied, {move.seconds:.0f} s"


def _bar(done: int, total: int, style: str) -> ProgressBar:
    return ProgressBar(total=max(total, 1), completed=done, width=BAR_WIDTH, complete_style=style, finished_style=style)


def _figures(view: View) -> Table:
    figures = Table(box=None, padding=(0, 3, 0, 0), title=None)
    for name in ("time", "epoch", "flights/s", "latency p50", "latency p99"):
        figures.add_column(name, justify="right", header_style="dim")
    latency = view.latency
    texts = (f"{view.seconds:.1f} s", str(view.epoch), f"{view.rate:,.0f}")
    figures.add_row(*texts, seconds_text(latency.p50), seconds_text(latency.p99))
    return figures


def worker_state(view: View, slot: int) -> str:
    """What a worker is doing, in a word; "" for one that is not there.

    >>> moment = View(0, 0, 1, 0, 0, Latency(0, 0, 0, 0), (8, 0), 2, (0, 1), None)
    >>> worker_state(moment, 0), worker_state(moment, 1), worker_state(moment, 2)
    ('working', 'coming', '')
    """
    holds = slot < len(view.bins) and view.bins[slot] > 0
    if slot >= view.wanted:
        return "leaving" if holds or slot in view.running else ""
    return "working" if holds else "coming"


def _workers(view: View) -> Table:
    workers = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("worker", "", "bins", ""):
        workers.add_column(name, header_style="dim", justify="right" if name == "bins" else "left")
    slots = range(max(len(view.bins), view.wanted, *(slot + 1 for slot in view.running), 1))
    for slot in slots:
        bins, state = (view.bins[slot] if slot < len(view.bins) else 0), worker_state(view, slot)
        if state:
            style = "green" if state == "working" else "yellow"
            workers.add_row(str(slot), Text(state, style=style), str(bins), _bar(bins, sum(view.bins), "green"))
    return workers


def _routes(view: View) -> Table:
    routes = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("most delayed routes", "flights", "mean delay"):
        routes.add_column(name, header_style="dim", justify="left" if "routes" in name else "right")
    for name, flights, minutes in view.routes:
        routes.add_row(name, f"{flights:,}", f"{minutes:.1f} min")
    return routes


class Screen(Protocol):
    """Shows views, and messages in between."""

    def show(self, view: View) -> None:
        """The newest moment."""

    def show_message(self, text: str) -> None:
        """Something worth a line of its own."""

    def close(self) -> None:
        """Leave the last moment on the terminal."""


class LiveScreen:
    """Tables that stay in their place; for a terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._live.start()

    def show(self, view: View) -> None:
        """See `Screen`."""
        self._live.update(table(view), refresh=True)

    def show_message(self, text: str) -> None:
        """See `Screen`."""
        self._live.console.print(text, highlight=False)

    def close(self) -> None:
        """See `Screen`."""
        self._live.stop()


class LineScreen:
    """A line every now and then; for files and CI."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def show(self, view: View) -> None:
        """See `Screen`."""
        if view.seconds >= self._next:
            self._next = view.seconds + LINE_EVERY_SECONDS
            self.show_message(line(view))

    def show_message(self, text: str) -> None:
        """See `Screen`."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """See `Screen`."""


def screen_for(console: Console) -> Screen:
    """What fits where the output goes."""
    return LiveScreen(console) if console.is_terminal else LineScreen(console)
