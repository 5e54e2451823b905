"""The loss of a driver, with and without a standby: the time from its SIGKILL to the next commit.

The processes are those of a dataflow's pods, on loopback: driver, master, and two executors. All share the machine's cores. With a standby,
driver and master are killed, and the other driver is activated at once, as the operator does; the next kill waits until a new standby's
executors have rehearsed. Without one, driver and program are killed and started again at once, as the kubelet does.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from archive import save
from options import WATCH, parsed, parser
from rich.progress import track
from tables import text
from targets import Row, Target, verdicts

from pods_world import Pods, pods
from two_drivers import TwoDrivers, two_drivers

PROGRAM = Path(__file__).parent / "taken_over_program.py"
TARGETS = (
    Target("longest silence of all kills", "silent_max_s", 8.0, of=lambda row: bool(row["standby"]), unit=" s"),
    Target("longest silence of all kills", "silent_max_s", 20.0, of=lambda row: not row["standby"], unit=" s"),
)


def main() -> None:
    """Kill drivers of both."""
    made = parser(__doc__)
    made.add_argument("--keys", type=int, default=100_000, help="keys in the state")
    made.add_argument("--rate", type=int, default=1_000, help="rows a second")
    made.add_argument("--kills", type=int, default=5, help="drivers killed in each case")
    made.add_argument("--calm-seconds", type=float, default=10.0, help="unmeasured seconds before each kill")
    args = parsed(made, {"keys": 1000, "kills": 1, "calm_seconds": 1.0})
    rows = [row(standby, args) for standby in track((False, True), description="with and without a standby")]
    print(text(rows))
    print(text(verdicts(rows, TARGETS, named)))
    if not args.quick:
        save("takeover", rows, ["standby"], elsewhere=WATCH.cores())


def row(standby: bool, args: Namespace) -> dict[str, Any]:
    """The figures of all kills of a case."""
    with tempfile.TemporaryDirectory(prefix="binshift-bench-", ignore_cleanup_errors=True) as name:
        seconds = list((_taken_over if standby else _restarted)(Path(name), args))
    return {
        "standby": standby,
        "keys": args.keys,
        "kills": len(seconds),
        "silent_s": round(median(seconds), 2),
        "silent_max_s": round(max(seconds), 2),
    }


def _taken_over(folder: Path, args: Namespace) -> Iterator[float]:
    """Seconds of each take-over; the drivers take turns."""
    with two_drivers(folder, PROGRAM, str(args.keys), str(args.rate)) as found:
        found.start_driver(0)
        for slot in (0, 1):
            found.start_worker(slot)
        found.awaited(0, state="Standby", registered=[0, 1])
        found.activate(0)
        for kill in range(args.kills):
            standby = (kill + 1) % 2
            found.park(standby)
            time.sleep(args.calm_seconds)
            yield _seconds(found, standby)
            found.grows(standby)


def _seconds(found: TwoDrivers, standby: int) -> float:
    before, began = found.seen(1 - standby)["epoch"], time.monotonic()
    found.take_over(standby, before)
    return time.monotonic() - began


def _restarted(folder: Path, args: Namespace) -> Iterator[float]:
    """Seconds of each restart."""
    with pods(folder) as found:
        found.master()
        for slot in (0, 1):
            found.worker(slot)
        _start(found, args)
        for _ in range(args.kills):
            time.sleep(args.calm_seconds)
            before, began = found.dataflow()["epoch"], time.monotonic()
            found.kill("driver")
            _start(found, args, before)
            yield time.monotonic() - began


def _start(found: Pods, args: Namespace, before: int = -1) -> None:
    """Start the driver, and wait for an epoch after ``before``."""
    found.driver(PROGRAM, str(args.keys), str(args.rate))
    found.awaited(lambda got: got["epoch"] > before, lambda: _seen(found))


def _seen(found: Pods) -> Any:
    try:
        return found.dataflow()
    except OSError:
        return {"epoch": -1}


def named(row: Row) -> str:
    """A short name of a row."""
    return f"{'with' if row['standby'] else 'without'} a standby driver"


if __name__ == "__main__":
    main()
