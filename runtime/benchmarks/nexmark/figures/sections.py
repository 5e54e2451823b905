"""A section of docs/nexmark.md for each experiment that has results, and its plot. Computes no figure itself."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from archive import load
from page import DOCS, measured
from plots import plotted
from tables import markdown
from targets import summary

from nexmark.figures.all import EXPERIMENTS
from nexmark.figures.command import shown
from nexmark.figures.experiment import Experiment

IMAGES = DOCS / "images"


def described() -> str:
    """A table of all experiments: their commands, what they repeat, and how long they take."""
    return markdown(
        [
            {"command": f"`{each.name}`", "repeats": each.paper, "minutes, about": each.minutes}
            for each in EXPERIMENTS.values()
        ]
    )


def sections() -> str:
    """The sections of all experiments with results; a sentence if there are none."""
    found = [section(each) for each in EXPERIMENTS.values() if load(each.archive)]
    return "\n\n".join(found) if found else "*None of them is measured yet on a quiet machine.*"


def section(experiment: Experiment) -> str:
    """Finding, method, results in a sentence, plot, table and targets."""
    rows = load(experiment.archive)
    parts = [
        f"### {experiment.title}",
        f"**In the paper** ({experiment.paper}): {experiment.finding}",
        f"**Here** (`make nexmark NEXMARK={experiment.name}`): {experiment.method}",
        experiment.sentence(rows),
        f"![{experiment.title}](images/{picture(experiment).name})",
        markdown(shown(experiment, rows)),
    ]
    if met := summary(rows, experiment.targets, experiment.named):
        parts.append(markdown(met))
    return "\n\n".join([*(folded(part) for part in parts), measured(rows)])


def folded(text: str, width: int = 140) -> str:
    """Prose in lines of the page's width; tables, headings and pictures as they are."""
    return text if text[0] in "|#!" else textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def picture(experiment: Experiment) -> Path:
    """The file of its plot."""
    return IMAGES / f"{experiment.archive.replace('_', '-')}.png"


def draw() -> Iterator[Path]:
    """Draw the plots of all experiments with results."""
    for each in EXPERIMENTS.values():
        if rows := load(each.archive):
            yield plotted(each.paint, rows, picture(each))
