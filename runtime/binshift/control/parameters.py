"""The query parameters of the calls: text that is read; a name that is not here is refused.

Bodies and answers are in `models`. The limits are shared with them, so that a list that can be asked for can be answered.
A parameter of another type, or beyond its limit, is answered with 422 and the parameter's name; nothing is read from the
query before.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from binshift.control.models import BINS_LISTED_MAX, MIGRATIONS_LISTED_MAX, Slot
from binshift.model import BINS_MAX


class Parameters(BaseModel):
    """The query parameters of a call: text that is read, but none that is not named."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BinsParameters(Parameters):
    """Which bins to list."""

    worker: Slot | None = Field(default=None, description="Only those it owns.")
    first: int = Field(default=0, ge=0, le=BINS_MAX, description="From this bin on.")
    limit: int = Field(default=4096, ge=1, le=BINS_LISTED_MAX)


class MigrationsParameters(Parameters):
    """Which migrations to list."""

    limit: int = Field(default=100, ge=1, le=MIGRATIONS_LISTED_MAX)


class CancelParameters(Parameters):
    """How to cancel."""

    rollback: bool = Field(default=False, description="Whether bins that have moved go back.")
