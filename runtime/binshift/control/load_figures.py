"""How loaded a dataflow is, and its hot keys, as answers; `load_answers` makes them.

The text of a key is users' data: it is in these answers, which need the token, and never in a log or a label of a metric.
"""

from __future__ import annotations

from pydantic import Field

from binshift.control.answer import Answer


class Load(Answer):
    """How loaded a dataflow is; see `binshift.load`. Rows are those read from the sources, before the program filters them."""

    at: float = Field(description="When it was measured, in seconds since 1970.")
    epochs_measured: int
    fixed_seconds: float | None = Field(description="Part of an epoch that its rows do not change.")
    seconds_per_row: float | None = Field(description="Of a worker.")
    certain: bool = Field(description="Whether epochs of different sizes have shown which part is fixed.")
    arriving_rows_per_second: float | None
    backlog_rows: int | None = Field(
        description="Rows the sources have beyond those taken; null where no source knows."
    )
    bound_rows: int | None = Field(description="Rows that an epoch can take at most; null: no bound.")
    at_bound: bool = Field(description="Whether the newest epochs took as much as they were allowed to.")
    epoch_seconds: float | None
    workers: int = Field(description="That own bins.")
    capacity_rows_per_second: float | None = Field(description="With all workers busy all the time.")
    hottest_bin_share: float | None = Field(
        default=None,
        description="Of the rows behind the exchange, that of the bin with most of them; null while too few were counted.",
    )
    hottest_bin_key: str = Field(default="", description="The hot key of that bin; empty if none is known.")
    skew: float | None = Field(
        default=None,
        description="Rows behind the exchange of the busiest worker, as a multiple of the mean; null while too few were counted.",
    )
    skew_rebalanced: float | None = Field(default=None, description="The same after a rebalance.")


class HotKey(Answer):
    """A key with more than half of the records that each worker would have if all had the same number; see `binshift.hotkeys`."""

    operator: str
    key: str = Field(description="As text of at most 128 characters; a window of event time is the text `window`.")
    bin: int = Field(description="Where it was last.")
    worker: int = Field(description="Likewise.")
    share: float = Field(description="Of the operator's records.")
    rows_per_second: float | None = Field(description="Estimate of the source's records that have this key.")
