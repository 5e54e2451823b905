"""`binshift snapshot LOCATION`: a complete copy of a run's checkpoint at one epoch, while its query runs.

The driver copies; this command requests it, shows how far it is, and returns once it is complete. Interrupting the command does not end
the copy.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from binshift.control.models import State
from binshift.control.savepoints import NAME, Snapshot
from binshift.errors import RunFailed, SnapshotRefused
from binshift.hosting.client import ControlClient
from binshift.hosting.display import as_json, write
from binshift.hosting.local.options import location, open_run, parser
from binshift.hosting.local.show import POLL_SECONDS
from binshift.savepoints.states import SavepointState

SHOWN_SECONDS: Final = 2.0
"""Between two lines about a copy."""

EPILOG: Final = """\
examples:
  binshift snapshot /backup/monday                       copy the checkpoint of the run, and wait until it is complete
  binshift snapshot s3a://bucket/monday                  the same, to a bucket
  binshift snapshot /backup/monday --remove              remove the snapshot's files
  binshift log verify /backup/monday/binshift            check that every bin can be rebuilt from it
  binshift run clicks.py --checkpoint new --restore-from /backup/monday    start another query from it

The query continues meanwhile; its state is that of one epoch, which Spark has committed. LOCATION must be empty, and must
not be inside the checkpoint. It is complete once it has a file snapshot.json. The same command again continues a copy that was
interrupted. Of several queries, each has a folder with its name.

A query that is started from a snapshot reads its source from where the snapshot ends, so the source must still have that, and its sink
gets the later epochs a second time: let it write somewhere else if the first query still runs.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Request it and wait; returns the exit status."""
    parsing = parser("snapshot", "Copy the checkpoint of a run while its query runs.", EPILOG)
    parsing.add_argument("location", metavar="LOCATION", help="an empty directory, or s3a://bucket/prefix")
    parsing.add_argument("--name", type=_name, help="name of the snapshot (default: the last part of LOCATION)")
    parsing.add_argument("--remove", action="store_true", help="remove the snapshot at LOCATION instead")
    given = parsing.parse_args(arguments)
    _, control = open_run(given.run)
    place = location(given.location)
    name = given.name or default_name(place)
    if given.remove:
        control.remove_snapshot(name, place)
        write(as_json({"removed": place}) if given.output == "json" else f"removed the snapshot {name} at {place}")
        return 0
    found = await_complete(control, name, place, _shown, time.monotonic, time.sleep)
    write(as_json(found) if given.output == "json" else text_of(found))
    return 0


def default_name(place: str) -> str:
    """The name of a snapshot at a location.

    >>> default_name("s3a://bucket/Backup_Monday"), default_name("/")
    ('backup-monday', 'snapshot')
    """
    last = re.sub(r"[^a-z0-9.]+", "-", place.rstrip("/").rpartition("/")[2].lower())[:253]
    return last.strip("-.") or "snapshot"


def await_complete(
    control: ControlClient,
    name: str,
    place: str,
    show: Callable[[str], object],
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> Snapshot:
    """Request a snapshot, and wait until it is complete. One that failed before is begun again.

    Raises:
        SnapshotRefused: it failed; the message has the reason.
        RunFailed: the query has ended.
    """
    found = control.put_snapshot(name, place)
    if found.state is SavepointState.FAILED and found.finished_at is not None:
        control.remove_snapshot(name, place)
        found = control.put_snapshot(name, place)
    due = clock()
    while found.state is not SavepointState.COMPLETE:
        if found.state is SavepointState.FAILED:
            raise SnapshotRefused(f"the snapshot {name} failed: {found.reason}")
        if found.state is SavepointState.PENDING and found.reason and control.dataflow().state is not State.RUNNING:
            raise RunFailed(f"the query has ended; {text_of(found)}")
        if clock() >= due:
            show(text_of(found))
            due = clock() + SHOWN_SECONDS
        pause(POLL_SECONDS)
        waits = found.state is SavepointState.PENDING  # a request that is one too many has to be repeated
        found = control.put_snapshot(name, place) if waits else control.snapshot(name)
    return found


def text_of(found: Snapshot) -> str:
    """A line about a snapshot."""
    epoch = "" if found.epoch is None else f", epoch {found.epoch}"
    copied = f"{found.copied_files}/{found.files} files, {found.copied_bytes / 1e6:.1f}/{found.bytes / 1e6:.1f} MB"
    reason = f" ({found.reason})" if found.reason else ""
    return f"snapshot {found.name} at {found.location}: {found.state.value.lower()}{epoch}, {copied}{reason}"


def _shown(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _name(text: str) -> str:
    if not re.fullmatch(NAME.strip("^$"), text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: use a-z, 0-9, '-' and '.', up to 253 characters")
    return text
