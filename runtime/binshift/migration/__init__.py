"""One migration, from a plan to the last dropped copy, as an explicit state machine.

`begin` makes a state, ``advance(state, event) -> (state, actions)`` is the only way to change it, and `progress` and
`wants_epoch` read it. The package is pure: the caller reports events, carries out actions, and owns clocks and threads.

| event | a waiting step | copying | in the running route | copies kept by a source |
|---|---|---|---|---|
| capacity for one more step | `Copy` to each destination | | | |
| `CopyAt` | | closer to ready | recorded | |
| `CopyFailed` | | `Copy` again, or the migration fails | kept until the epoch is decided | |
| `EpochStarting` e | | if ready for e: `Flip` | | |
| `EpochRecorded` e | | | flipped; sources keep their copies | `Retire`, if flipped before e |
| `EpochAbandoned` | | | back to copying | |
| `Cancel`, failure | never begins | `DropCopies` | decided by the record | unchanged |

Ready for e means that every destination has the step's bins in the state of epoch e-2 or e-1, so that at most the last
delta is missing (`Limits.flip_deltas_max`); without pre-copy a step is always ready. When no step is in progress and no copy is
kept, the migration has ended: *settled* if all steps have flipped, otherwise *cancelled* or *failed*, with a reason. It owns
no route: to move back, or elsewhere, make a new plan from the recorded route.
"""

from __future__ import annotations

from binshift.migration.events import (
    Action,
    Cancel,
    Copy,
    CopyAt,
    CopyFailed,
    DropCopies,
    EpochAbandoned,
    EpochRecorded,
    EpochStarting,
    Event,
    Flip,
    Paced,
    Retire,
    RoundReported,
    Started,
    StepNumber,
    Warm,
    WorkerLost,
    WorkersWarm,
)
from binshift.migration.limits import Limits
from binshift.migration.machine import advance
from binshift.migration.report import Progress, Rates, moves_back, progress, wants_epoch
from binshift.migration.state import (
    Copying,
    CopyState,
    Flipping,
    InFlight,
    MigrationPlan,
    MigrationState,
    Phase,
    RetainedCopy,
    Termination,
    begin,
)

__all__ = [
    "Action",
    "Cancel",
    "Copy",
    "CopyAt",
    "CopyFailed",
    "CopyState",
    "Copying",
    "DropCopies",
    "EpochAbandoned",
    "EpochRecorded",
    "EpochStarting",
    "Event",
    "Flip",
    "Flipping",
    "InFlight",
    "Limits",
    "MigrationPlan",
    "MigrationState",
    "Paced",
    "Phase",
    "Progress",
    "Rates",
    "RetainedCopy",
    "Retire",
    "RoundReported",
    "Started",
    "StepNumber",
    "Termination",
    "Warm",
    "WorkerLost",
    "WorkersWarm",
    "advance",
    "begin",
    "moves_back",
    "progress",
    "wants_epoch",
]
