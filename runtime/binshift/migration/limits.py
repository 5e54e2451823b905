"""What bounds a migration: every limit it keeps, in one frozen value that pacing may replace while it runs.

A limit on bins or bytes never stops the one step that is alone: a step above it still moves, by itself. Otherwise a
plan with one fat step would never end.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from binshift.errors import InvalidSettings
from binshift.model import BINS_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a migration may be under way at once.

    Raises:
        InvalidSettings: a limit is below the least with which a migration can end.

    >>> Limits(steps_inflight_max=0)
    Traceback (most recent call last):
    ...
    binshift.errors.InvalidSettings: steps_inflight_max is 0, so no migration could ever end; the least is 1
    """

    steps_inflight_max: int = 4
    """Steps that are being copied, or wait for their flip. Two would hide the copying behind the flips; four
    ride out a slow copy."""

    copy_bins_inflight_max: int = 1024
    """Bins of those steps: each is copied or kept up to date, and its memory is held twice."""

    copy_bytes_inflight_max: int = 256 << 20
    """Bytes of those bins, where their sizes are known."""

    flips_per_epoch_max: int = 1
    """Steps that may flip in one epoch, of those under way. More than one trades the strategy's small peak for time."""

    flip_bins_per_epoch_max: int = BINS_MAX
    """Bins that may flip in one epoch; what pacing turns."""

    gap_epochs: int = 0
    """Epochs without a flip between two with one, so that what a flip delayed can drain."""

    copy_retries_max: int = 3
    """How often the copy of one step to one worker is started again before the migration fails."""

    flip_abandons_max: int = 3
    """How many times an epoch that flips a step may be given up before that step is taken to be the cause."""

    flip_deltas_max: int = 3
    """Recorded deltas that a flip may still have to apply, for each bin: what the flip puts on the epoch's path
    (5-10 ms each). With one, a move waits wherever catching up takes as long as an epoch does. Doubled with each round
    that copies miss it by, after `flip_misses_max`, until a round ends within it, or up to `flip_deltas_limit`."""

    flip_deltas_limit: int = 64
    """Deltas up to which that doubling goes (0.3-0.6 s in one epoch): a copy further behind is loaded afresh by then."""

    flip_misses_max: int = 2
    """Rounds in a row after which copies may be further behind than a flip allows. One such round is ordinary: it loaded
    much. If all are, rounds take longer than so many epochs, and without more deltas no flip would ever come."""

    in_order: bool = True
    """Whether a step waits for the flip of the one before it. Steps share no bin, so both ways are right; in order, what
    a person watches is what was planned."""

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name in {"gap_epochs", "copy_retries_max", "flip_abandons_max", "flip_misses_max"} else 1
            value = int(getattr(self, field.name))
            if field.name != "in_order" and value < least:
                raise InvalidSettings(
                    f"{field.name} is {value}, so no migration could ever end; the least is {least}"
                    if least
                    else f"{field.name} is {value}; the least is 0"
                )
