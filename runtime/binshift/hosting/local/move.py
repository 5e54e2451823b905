"""The commands that move bins of a run: `binshift scale`, `binshift rebalance` and `binshift cancel`.

Each is a function that takes the command line and returns the exit status. `scale` writes down how many workers there must be,
and the supervisor of the run does the rest; the others ask the control API.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from binshift.control import models
from binshift.control.requests import RebalanceRequest
from binshift.errors import BinshiftError, ControlUnreachable, MigrationRefused, NoSuchMigration, RunFailed
from binshift.hosting.client import ControlClient
from binshift.hosting.display import as_json, migration_text, print_migration, write
from binshift.hosting.local.directory import DesiredScale, RunDirectory, find
from binshift.hosting.local.options import control_of, count, open_run, parser, settled
from binshift.hosting.local.show import POLL_SECONDS
from binshift.local import WORKERS_MAX
from binshift.rescale import LOCAL_OWNER
from binshift.strategies import Strategy

SETTLED: Final = "settled"


def scale(arguments: Sequence[str] | None = None) -> int:
    """Request workers; returns the exit status."""
    parsing = parser("scale", "Change the number of workers of a run while its query runs.")
    parsing.add_argument("workers", type=count(WORKERS_MAX), metavar="N", help="the number of workers")
    given = _parsed(parsing, arguments, default="the query's")
    directory = find(os.environ, given.run)
    above = _newest_generation(directory)
    scale = directory.request(given.workers, given.strategy, given.batch_size, _pre_copy(given), above=above)
    if given.wait:
        await_settled(directory, scale, given.timeout)
    if given.output == "json":
        write(as_json({"desiredScale": scale, "settled": given.wait}))
    else:
        follow = "" if given.wait else "; `binshift migrations --watch` shows how far it is"
        write(f"{directory.path.name}: {scale.count} workers {'settled' if given.wait else 'requested'}{follow}")
    return 0


def rebalance(arguments: Sequence[str] | None = None) -> int:
    """Have the workers share the bins by their load as it is now; returns the exit status."""
    parsing = parser("rebalance", "Share the bins among the same workers by their load while the query runs.")
    given = _parsed(parsing, arguments, default="the target's")
    _, control = open_run(given.run)
    wanted = {"strategy": given.strategy, "batchSize": given.batch_size, "preCopy": _pre_copy(given)}
    migration = control.rebalance(RebalanceRequest.model_validate(wanted))
    assert migration is not None
    if given.wait:
        migration = await_end(control, migration, given.timeout, time.monotonic, time.sleep)
    print_migration(migration, given.output, "")
    return 0


def cancel(arguments: Sequence[str] | None = None) -> int:
    """Cancel; returns the exit status."""
    parsing = parser("cancel", "Cancel a migration: bins stay where they are; with --rollback, they move back.")
    parsing.add_argument("id", type=int, nargs="?", metavar="ID", help="the migration (default: the running one)")
    parsing.add_argument("--rollback", action="store_true", help="move bins back that have moved")
    given = parsing.parse_args(arguments)
    _, control = open_run(given.run)
    number = given.id
    if number is None:
        newest = control.under_way()
        if newest is None:
            raise NoSuchMigration("nothing moves now; `binshift migrations` lists what has moved")
        number = newest.id
    print_migration(control.cancel(number, rollback=given.rollback), given.output, "nothing to cancel")
    return 0


def _parsed(parsing: argparse.ArgumentParser, arguments: Sequence[str] | None, default: str) -> argparse.Namespace:
    """The command line of a move; ``default`` is whose strategy it has otherwise."""
    strategies = [each.value for each in Strategy]
    parsing.add_argument("--strategy", choices=strategies, help=f"how the move is cut into steps (default: {default})")
    parsing.add_argument("--batch-size", type=count(1 << 20), metavar="BINS", help="bins per step")
    parsing.add_argument("--no-pre-copy", action="store_true", help="do not copy state before its bin moves")
    parsing.add_argument("--wait", action="store_true", help="return once all bins have moved")
    parsing.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="limit of --wait (default: 600)"
    )
    return parsing.parse_args(arguments)


def _pre_copy(given: argparse.Namespace) -> bool | None:
    return False if given.no_pre_copy else None


def await_settled(directory: RunDirectory, scale: DesiredScale, timeout_seconds: float) -> None:
    """Wait until a requested scale has settled.

    Raises:
        RunFailed: not in time, or the query has ended.
        MigrationRefused, NoRun: it will not.
    """
    deadline = time.monotonic() + timeout_seconds
    while not _is_settled(directory, scale):
        if time.monotonic() > deadline:
            status = directory.scale_status
            awaiting = f"; it waits for {status.awaiting} {list(status.workers) or ''}" if status else ""
            raise RunFailed(f"{scale.count} workers have not settled within {timeout_seconds:g} s{awaiting}")
        time.sleep(POLL_SECONDS)


def _is_settled(directory: RunDirectory, scale: DesiredScale) -> bool:
    control = control_of(directory.run)
    try:
        return control is not None and settled(directory, control.dataflow(), scale)
    except ControlUnreachable:
        return False


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


def _newest_generation(directory: RunDirectory) -> int:
    """Of the target on the checkpoint, which an earlier run may have set; 0 if it cannot be read now."""
    control = control_of(directory.run)
    if control is None:
        return 0
    try:
        target = control.dataflow().target
    except BinshiftError:  # the supervisor then finds the number itself
        return 0
    return target.generation if target is not None and target.owner == LOCAL_OWNER else 0
