"""An experiment of a paper: what the paper found, how it is repeated, what is measured, and how the figures are shown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measuring import Bench
from targets import Row, Target

from nexmark.figures.stage import Pace

Rows = Iterable[Row]
Run = Callable[[Bench, argparse.Namespace, Pace], Rows]
"""Measures; yields the rows of results as soon as they are known."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One command of the suite, one section of the page, one plot.

    Attributes:
        name: of the command.
        title: of the section.
        paper: which figures it repeats.
        finding: what the paper found there.
        method: how it is repeated here.
        rounds: measured moves of each way, at most.
        minutes: it takes on two cores, about.
        case: the columns that identify a row of results.
        columns: shown on the page.
        targets: of its figures.
        named: a short name of a row.
        sentence: what the results mean, computed from them.
        paint: draws them into a figure of matplotlib.
        options: adds its own options to the command.
        quick: the options of a run of seconds.
        count: how many measured moves there will be, for the progress bar.
        run: see `Run`.
    """

    name: str
    title: str
    paper: str
    finding: str
    method: str
    rounds: int = 2
    minutes: int
    case: tuple[str, ...]
    columns: tuple[str, ...]
    targets: Sequence[Target]
    named: Callable[[Row], str]
    sentence: Callable[[Sequence[Row]], str]
    paint: Callable[[Any, Sequence[Row]], None]
    options: Callable[[argparse.ArgumentParser], None]
    quick: Mapping[str, object]
    count: Callable[[argparse.Namespace, Pace], int]
    run: Run

    @property
    def archive(self) -> str:
        """The name of its results."""
        return f"nexmark_{self.name}"
