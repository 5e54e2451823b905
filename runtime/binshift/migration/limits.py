"""The limits of a migration, in one frozen value that pacing may replace while it runs.

A limit on bins or bytes never blocks a step that is the only one: a step above the limit still moves, alone. Otherwise a
plan with one large step would never end.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from binshift.errors import InvalidSettings
from binshift.model import BINS_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a migration may be in progress at once.

    Raises:
        InvalidSettings: a limit is too low for a migration to end.

    >>> Limits(steps_inflight_max=0)
    Traceback (most recent call last):
    ...
    binshift.errors.InvalidSettings: steps_inflight_max is 0, so no migration could ever end; the least is 1
    """

    steps_inflight_max: int = 4
    """Steps that are being copied or wait for their flip. Two would hide the copying behind the flips; four also absorb
    a slow copy."""

    copy_bins_inflight_max: int = 1024
    """Bins of those steps: each is copied or kept current, and uses memory twice."""

    copy_bytes_inflight_max: int = 256 << 20
    """Bytes of those bins, if their sizes are known."""

    flips_per_epoch_max: int = 1
    """Steps in progress that may flip in one epoch. More than one trades the strategy's small peak for time."""

    flip_bins_per_epoch_max: int = BINS_MAX
    """Bins that may flip in one epoch; pacing changes it."""

    gap_epochs: int = 0
    """Epochs without a flip between two with one, so that records delayed by a flip can be processed."""

    copy_retries_max: int = 3
    """How often the copy of one step to one worker is restarted before the migration fails."""

    flip_abandons_max: int = 3
    """How often an epoch that flips a step may be abandoned before that step is regarded as the cause."""

    flip_deltas_max: int = 3
    """Recorded deltas per bin that a flip may still have to apply, inside the epoch (5-10 ms each). With one, a move
    waits if catching up takes as long as an epoch. After `flip_misses_max`, it is doubled with each round that copies
    miss it, until a round ends within it, or up to `flip_deltas_limit`."""

    flip_deltas_limit: int = 64
    """The limit of that doubling (0.3-0.6 s in one epoch): a copy that is further behind is loaded again."""

    flip_misses_max: int = 2
    """Rounds in a row after which copies may be further behind than a flip allows. One such round is normal: it loaded
    much. If all are, rounds take longer than that many epochs, and a flip needs more deltas to happen at all."""

    in_order: bool = True
    """Whether a step waits for the flip of the previous one. Steps share no bin, so both ways are correct; in order, users
    see the plan as it was made."""

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
