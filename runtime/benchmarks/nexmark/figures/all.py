"""All experiments, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping

from nexmark.figures.bins import BINS
from nexmark.figures.duration import DURATION
from nexmark.figures.experiment import Experiment
from nexmark.figures.failure import FAILURE
from nexmark.figures.memory import MEMORY
from nexmark.figures.offered import LOAD
from nexmark.figures.over_time import LATENCY
from nexmark.figures.preparation import PREPARATION
from nexmark.figures.rescaling import RESCALE
from nexmark.figures.sizes import STATE

EXPERIMENTS: Mapping[str, Experiment] = {
    each.name: each for each in (LATENCY, DURATION, BINS, STATE, LOAD, MEMORY, RESCALE, PREPARATION, FAILURE)
}
