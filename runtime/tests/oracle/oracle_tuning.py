"""Settings of the random histories, and the description of one that fails."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from binshift.migration import Limits
from binshift.store.engine.contract import StoreLimits
from simulator import Tuning
from simulator.faults import Faults


def tuning_for(rng: random.Random) -> Tuning:
    """Settings with which some limit is always reached."""
    cycle = rng.randint(1, 6)
    return Tuning(
        snapshot_cycle_epochs=cycle,
        epochs_per_second=1.0 if cycle > 4 else None,
        manifest_every_epochs=rng.randint(1, 5),
        collect_every_epochs=rng.randint(1, 3),
        grace_seconds=rng.choice([1.0, 1.0, 3.0]),
        budget_pieces=rng.choice([1, 2, 4, 30]),
        undo=rng.random() < 0.8,
        take_over=rng.random() < 0.7,
        limits=Limits(
            steps_inflight_max=rng.randint(1, 4),
            flips_per_epoch_max=rng.randint(1, 3),
            gap_epochs=rng.choice([0, 0, 1]),
            flip_deltas_max=rng.choice([1, 1, 2]),
        ),
        stores=StoreLimits(
            undo_bytes_max=rng.choice([0, 200, 1 << 20]),
            background_rows_max=rng.choice([2, 8, 1000]),
            lock_seconds_max=0.05,
        ),
    )


def with_standbys(tuning: Tuning, seed: int) -> Tuning:
    """Every third history has standby copies."""
    return replace(tuning, standby_replicas=int(seed % 3 == 0))


def tale(seed: int, script: Sequence[str], faults: Faults) -> str:
    """The events, for the message of a failure."""
    lines = [f"BINSHIFT_SEED={seed}", f"actions: {'; '.join(script)}", f"faults: {faults.struck or 'none'}"]
    return "\n".join([*lines, "the last effects:", *list(faults.trace)[-15:]])
