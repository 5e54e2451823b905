"""The commands that show a run: `binshift status`, `page`, `bins` and `migrations`. They change nothing.

Each is a function that takes the command line and returns the exit status. ``migrations --watch`` stays until nothing moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from binshift.control import models
from binshift.hosting.client import ControlClient
from binshift.hosting.display import (
    Show,
    as_json,
    dataflow_facts,
    print_bins,
    print_facts,
    print_migrations,
    shown_migrations,
    speed_facts,
    write,
)
from binshift.hosting.following import Observation, follow
from binshift.hosting.local.directory import DesiredScale, RunDirectory, ScaleStatus
from binshift.hosting.local.options import open_run, page_address, parser, settled
from binshift.model import Worker
from binshift.rescale import Awaiting

POLL_SECONDS: Final = 0.2

AWAITED = {
    Awaiting.RUNTIME: "waiting for the program's query to run, and for its first epoch",
    Awaiting.OTHER_OWNER: "the target belongs to another owner",
    Awaiting.GENERATION: "the query has a newer target; asking again",
    Awaiting.REGISTRATION: "waiting for workers {} to register with Spark",
    Awaiting.MIGRATION: "bins are moving",
    Awaiting.HOLD: "waiting one more epoch, before workers {} end",
    Awaiting.BINS: "workers {} still hold bins",
}
"""What is awaited, for people; the braces are the workers it is about."""


def status(arguments: Sequence[str] | None = None) -> int:
    """Show it; returns the exit status."""
    given = parser("status", "Show what a run is doing.").parse_args(arguments)
    directory, control = open_run(given.run)
    run, scale, status, dataflow = directory.run, directory.desired_scale, directory.scale_status, control.dataflow()
    if given.output == "json":
        shown = {"name": run.name, "pid": run.pid, "program": run.program, "cluster": run.cluster, "url": run.url}
        write(as_json({"run": shown, "desiredScale": scale, "scaleStatus": status, "dataflow": dataflow}))
        return 0
    print_facts([("run", f"{run.name}  ({run.program})"), *facts(dataflow, scale, status)])
    return 0


def page(arguments: Sequence[str] | None = None) -> int:
    """Print the address of the run's page, with its token; returns the exit status."""
    given = parser("page", "Print the address of a run's page, for a browser on this machine.").parse_args(arguments)
    directory, _ = open_run(given.run)
    address = page_address(directory.run)
    write(as_json({"page": address}) if given.output == "json" else address)
    return 0


def facts(dataflow: models.Dataflow, scale: DesiredScale, status: ScaleStatus | None) -> list[tuple[str, str]]:
    """The status for users, as (name, text)."""
    found = [
        *dataflow_facts(dataflow),
        ("requested", f"{scale.count} workers (generation {scale.generation})"),
    ]
    if status is not None and status.refused:
        found.append(("refused", status.refused))
    elif awaited := awaited_text(status):
        found.append(("now", awaited))
    return [*found, *speed_facts(dataflow)]


def awaited_text(status: ScaleStatus | None) -> str:
    """What the supervisor waits for, for people; empty if for nothing."""
    if status is None or status.refused or not status.awaiting:
        return ""
    known = {each.value: text for each, text in AWAITED.items()}
    return known.get(status.awaiting, status.awaiting).format(", ".join(map(str, status.workers)))


def bins(arguments: Sequence[str] | None = None) -> int:
    """Show them; returns the exit status."""
    parsing = parser("bins", "Show which worker holds how many bins. Keys and bytes are estimates, from snapshots.")
    parsing.add_argument("--worker", type=_slot, metavar="W", help="list the bins of this worker")
    given = parsing.parse_args(arguments)
    _, control = open_run(given.run)
    print_bins(control, given.worker, given.output)
    return 0


def _slot(text: str) -> Worker:
    return Worker(int(text))


def migrations(arguments: Sequence[str] | None = None) -> int:
    """Show them; returns the exit status."""
    parsing = parser("migrations", "Show the migrations of a run, the newest last.")
    parsing.add_argument("--watch", action="store_true", help="watch until the requested scale has settled")
    given = parsing.parse_args(arguments)
    directory, control = open_run(given.run)
    if given.watch:
        with shown_migrations(given.output) as show:
            watch(directory, control, show, time.sleep)
        return 0
    print_migrations(control, given.output, "`binshift scale N`")
    return 0


def watch(directory: RunDirectory, control: ControlClient, show: Show, pause: Callable[[float], None]) -> None:
    """Show what is awaited and the newest migration, whenever they have changed, until the requested scale has settled.

    Raises:
        MigrationRefused, RunFailed: it will not.
    """

    def read() -> Observation:
        scale, seen = directory.desired_scale, control.dataflow()
        awaited = awaited_text(directory.scale_status)
        done = directory.desired_scale == scale and settled(directory, seen, scale)
        return Observation(seen.migration, awaited and f"{scale.count} workers: {awaited}", done)

    follow(read, show, lambda: pause(POLL_SECONDS))
