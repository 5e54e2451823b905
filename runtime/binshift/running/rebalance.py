"""`binshift rebalance`: has the workers of a run share the bins by their load as it is now."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from binshift.control import models
from binshift.control.requests import RebalanceRequest
from binshift.errors import MigrationRefused, RunFailed
from binshift.running.client import ControlClient
from binshift.running.options import as_json, count, opened, parser, write
from binshift.running.scale import POLL_SECONDS, STRATEGIES
from binshift.running.status import migration_text

SETTLED: Final = "settled"


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask for it; returns the exit status."""
    parsing = parser("rebalance", "Share the bins among the same workers by their load, while the query goes on.")
    parsing.add_argument(
        "--strategy", choices=STRATEGIES, help="how the move is cut into steps (default: the target's)"
    )
    parsing.add_argument("--batch-size", type=count(1 << 20), metavar="BINS", help="bins a step")
    parsing.add_argument("--no-pre-copy", action="store_true", help="do not copy state ahead of its flip")
    parsing.add_argument("--wait", action="store_true", help="return when all bins are in their places")
    parsing.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="of --wait (default: 600)")
    given = parsing.parse_args(arguments)
    _, control = opened(given.run)
    pre_copy = False if given.no_pre_copy else None
    wanted = {"strategy": given.strategy, "batchSize": given.batch_size, "preCopy": pre_copy}
    migration = control.rebalance(RebalanceRequest.model_validate(wanted))
    assert migration is not None
    if given.wait:
        migration = await_end(control, migration, given.timeout, time.monotonic, time.sleep)
    write(as_json({"migration": migration}) if given.output == "json" else migration_text(migration))
    return 0


def await_end(
    control: ControlClient,
    migration: models.Migration,
    timeout_seconds: float,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> models.Migration:
    """The migration once it has settled.

    Raises:
        MigrationRefused: it ended otherwise.
        RunFailed: not in time.
    """
    deadline = clock() + timeout_seconds
    while migration.ended_at is None:
        if clock() > deadline:
            raise RunFailed(f"migration {migration.id} has not settled within {timeout_seconds:g} s")
        pause(POLL_SECONDS)
        migration = control.migration(migration.id)
    if migration.phase != SETTLED:
        raise MigrationRefused(f"migration {migration_text(migration)}")
    return migration
