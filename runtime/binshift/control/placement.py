"""Where every bin is and which bins are about to move, in a form that is small enough to be read every second.

`models.Bins` has what is known of each bin; this has the owners alone, as one list, and the moving bins by stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
from pydantic import Field

from binshift.control.answer import Answer
from binshift.engine.migrations import Migration
from binshift.log.index.index import Index
from binshift.migration import Copying, Flipping, InFlight, MigrationState
from binshift.migration.state import bins_by_worker
from binshift.model import Epoch, Moves

StageName: TypeAlias = Literal["waiting", "copying", "copied", "flipping"]


class MovingBins(Answer):
    """Bins that move to one worker and are at the same stage."""

    stage: StageName = Field(
        description="Waiting for its step; being copied; copied, so that it can flip; in the route of the running epoch."
    )
    worker: int = Field(description="The worker that gets them.")
    bins: list[int]


class Placement(Answer):
    """The owners of some bins as of one epoch; ``next`` is where the following page begins, null after the last."""

    epoch: int
    route_version: int | None
    first: int = Field(description="The bin of the first owner; the owners of the following bins follow.")
    owners: list[int]
    moving: list[MovingBins] = Field(description="Those of these bins that are about to get another owner.")
    next: int | None


def placement_of(index: Index, migrations: Sequence[Migration], first: int, limit: int) -> Placement:
    """The owners of ``limit`` bins from ``first`` on."""
    route = index.route
    if route is None:
        return Placement(epoch=index.last, route_version=None, first=first, owners=[], moving=[], next=None)
    after = min(first + limit, route.bins)
    moving = [
        MovingBins(stage=stage, worker=int(worker), bins=bins.array.tolist())
        for each in migrations
        if each.state is not None and not each.ended
        for stage, moves in stages(each.state)
        for worker, bins in bins_by_worker(_within(moves, route.owners, first, after), at_source=False)
    ]
    return Placement(
        epoch=index.last,
        route_version=route.version,
        first=first,
        owners=route.owners[first:after].tolist(),
        moving=moving,
        next=after if first < after < route.bins else None,
    )


def stages(state: MigrationState) -> Iterator[tuple[StageName, Moves]]:
    """The moves that are not done yet, by their stage."""
    for step in state.inflight:
        yield _stage(step, state), state.plan.moves(step.step)
    if state.ending is None:
        yield "waiting", state.plan.moves_from(state.steps_begun)


def _stage(step: InFlight, state: MigrationState) -> StageName:
    match step:
        case Flipping():
            return "flipping"
        case Copying():
            if not state.plan.pre_copy:
                return "waiting"
            return "copied" if step.ready(Epoch(state.recorded + 1), state.flip_deltas) else "copying"
        case _:
            assert_never(step)


def _within(moves: Moves, owners: npt.NDArray[np.int32], first: int, after: int) -> Moves:
    """Those of a range of bins; a bin whose flip was recorded a moment ago is left out."""
    known = (moves.bins >= first) & (moves.bins < after)
    moves = moves[known]
    return moves[owners[moves.bins] != moves.destinations]
