"""What callers send: bodies and query parameters. Answers are in `models`.

A request with a field or parameter that is not named here, a value of another type or more than a stated limit is answered with
422 and the name; nothing is read from the query before. Ignoring it silently would be worse than an error. Bodies are camelCase
and strict; parameters are text.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from binshift.control.models import OWNER_CHARACTERS_MAX, StrategyName
from binshift.model import BINS_MAX

WORKERS_MAX: Final = 1000
"""Workers a target may name."""
WORKER_MAX: Final = 999_999
"""Highest slot a target may name."""
GENERATION_MAX: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""
LATENCY_SECONDS_MAX: Final = 86_400.0
MAX_EPOCH_SECONDS_MIN: Final = 0.05
MAX_EPOCH_SECONDS_MAX: Final = 1e9  # the Spark conf has no limit
BINS_LISTED_MAX: Final = 65_536
"""Bins of one answer; more are read page by page."""
EPOCHS_LISTED_MAX: Final = 1000
MIGRATIONS_LISTED_MAX: Final = 1000


def _whole(value: object) -> object:
    """JSON has one kind of number: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_IS_WHOLE: Final = BeforeValidator(_whole)
WorkerSlot = Annotated[int, Field(ge=0, le=WORKER_MAX), _IS_WHOLE]
Generation = Annotated[int, Field(ge=0, le=GENERATION_MAX), _IS_WHOLE]
BatchSize = Annotated[int, Field(ge=1, le=BINS_MAX), _IS_WHOLE]


class Body(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class MigrationRequest(Body):
    """How bins are to move."""

    strategy: StrategyName | None = Field(default=None, description="How the plan is cut into steps.")
    batch_size: BatchSize | None = Field(default=None, description="Bins a step, for Batched and Optimized.")
    pre_copy: bool | None = Field(default=None, description="Whether bins are copied ahead of their flips.")


class RebalanceRequest(MigrationRequest):
    """Share the bins by their load as it is now. What is left out is as the target has it, and it holds for this once."""


class TargetRequest(MigrationRequest):
    """The requested placement of bins. An omitted field keeps the query's own setting."""

    owner: str = Field(
        max_length=OWNER_CHARACTERS_MAX,
        pattern="^[!-~]*$",
        description="The target's only writer: a resource's UID, or empty for the query's own program.",
    )
    generation: Generation = Field(description="The owner's number for it; only a higher one replaces it.")
    workers: list[WorkerSlot] = Field(
        min_length=1,
        max_length=WORKERS_MAX,
        description="Slots that may own bins.",
        json_schema_extra={"uniqueItems": True},
    )
    latency_target_seconds: float | None = Field(
        default=None, ge=0.01, le=LATENCY_SECONDS_MAX, allow_inf_nan=False, description="What pacing aims at."
    )

    @field_validator("workers")
    @classmethod
    def _once_each(cls, workers: list[int]) -> list[int]:
        twice = next((w for w in workers if workers.count(w) > 1), None) if len(set(workers)) < len(workers) else None
        if twice is not None:
            raise ValueError(f"worker {twice} is named twice")
        return workers


class SettingsRequest(Body):
    """Settings in place of the Spark conf's, until the driver ends. What the program has set for a query itself stays."""

    max_epoch_seconds: float | None = Field(
        ge=MAX_EPOCH_SECONDS_MIN,
        le=MAX_EPOCH_SECONDS_MAX,
        allow_inf_nan=False,
        description="How long an epoch should take at most, from the next one on; null: no bound.",
    )


class Parameters(BaseModel):
    """The query parameters of a call."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BinsParameters(Parameters):
    """Which bins to list."""

    worker: WorkerSlot | None = Field(default=None, description="Only those it owns.")
    first: int = Field(default=0, ge=0, le=BINS_MAX, description="From this bin on.")
    limit: int = Field(default=4096, ge=1, le=BINS_LISTED_MAX)


class PlacementParameters(Parameters):
    """Of which bins."""

    first: int = Field(default=0, ge=0, le=BINS_MAX, description="From this bin on.")
    limit: int = Field(default=BINS_LISTED_MAX, ge=1, le=BINS_LISTED_MAX)


class EpochsParameters(Parameters):
    """Which epochs to list."""

    after: int = Field(default=-1, ge=-1, le=GENERATION_MAX, description="Only those after this epoch.")
    limit: int = Field(default=100, ge=1, le=EPOCHS_LISTED_MAX, description="The newest so many.")


class MigrationsParameters(Parameters):
    """Which migrations to list."""

    limit: int = Field(default=100, ge=1, le=MIGRATIONS_LISTED_MAX)


class CancelParameters(Parameters):
    """How to cancel."""

    rollback: bool = Field(default=False, description="Whether bins that have moved go back.")
