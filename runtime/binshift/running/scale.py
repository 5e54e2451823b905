"""`binshift scale N`: writes down how many workers there should be; the supervisor of the run does the rest."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Final

from binshift.errors import BinshiftError, ControlUnreachable, RunFailed
from binshift.local import WORKERS_MAX
from binshift.rescale import LOCAL_OWNER
from binshift.running.client import ControlClient
from binshift.running.directory import DesiredScale, RunDirectory, find
from binshift.running.options import as_json, count, parser, settled, write

STRATEGIES: Final = ("AllAtOnce", "Fluid", "Batched", "Optimized")
POLL_SECONDS: Final = 0.2


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask for workers; returns the exit status."""
    parsing = parser("scale", "Change the number of workers of a run, while its query goes on.")
    parsing.add_argument("workers", type=count(WORKERS_MAX), metavar="N", help="how many workers there should be")
    parsing.add_argument("--strategy", choices=STRATEGIES, help="how the move is cut into steps (default: the query's)")
    parsing.add_argument("--batch-size", type=count(1 << 20), metavar="BINS", help="bins a step")
    parsing.add_argument("--no-pre-copy", action="store_true", help="do not copy state ahead of its flip")
    parsing.add_argument("--wait", action="store_true", help="return when all bins are in their places")
    parsing.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="of --wait (default: 600)")
    given = parsing.parse_args(arguments)
    directory = find(os.environ, given.run)
    pre_copy = False if given.no_pre_copy else None
    above = _newest_generation(directory)
    wish = directory.ask(given.workers, given.strategy, given.batch_size, pre_copy, above=above)
    if given.wait:
        await_settled(directory, wish, given.timeout)
    if given.output == "json":
        write(as_json({"wish": wish, "settled": given.wait}))
    else:
        follow = "" if given.wait else "; `binshift migrations --watch` shows how far it is"
        write(f"{directory.path.name}: {wish.count} workers {'settled' if given.wait else 'asked for'}{follow}")
    return 0


def await_settled(directory: RunDirectory, wish: DesiredScale, timeout_seconds: float) -> None:
    """Wait until a wish has come true.

    Raises:
        RunFailed: not in time, or the query has ended.
        MigrationRefused, NoRun: it will not.
    """
    deadline = time.monotonic() + timeout_seconds
    while not _is_settled(directory, wish):
        if time.monotonic() > deadline:
            verdict = directory.verdict
            awaiting = f"; it waits for {verdict.awaiting} {list(verdict.workers) or ''}" if verdict else ""
            raise RunFailed(f"{wish.count} workers have not settled within {timeout_seconds:g} s{awaiting}")
        time.sleep(POLL_SECONDS)


def _is_settled(directory: RunDirectory, wish: DesiredScale) -> bool:
    run = directory.run
    if run.url is None:
        return False
    try:
        return settled(directory, ControlClient(run.url, run.token).dataflow(), wish)
    except ControlUnreachable:
        return False


def _newest_generation(directory: RunDirectory) -> int:
    """Of the target on the checkpoint, which an earlier run may have set; 0 if it cannot be asked now."""
    run = directory.run
    if run.url is None:
        return 0
    try:
        target = ControlClient(run.url, run.token).dataflow().target
    except BinshiftError:  # the supervisor then finds the number itself
        return 0
    return target.generation if target is not None and target.owner == LOCAL_OWNER else 0
