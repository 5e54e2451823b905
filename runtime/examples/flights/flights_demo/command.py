"""The demo's command line: its arguments, and what its exit status means.

0: the final state equals pandas' answer. 1: it does not, or something failed. 130: interrupted; all processes are ended anyway.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from binshift.hosting.exits import exit_status
from flights_demo.environment import one_interrupt
from flights_demo.show import Options, show

DESCRIPTION = """\
Replay the 336,776 flights that left New York's airports in 2013, in the order of their departures, as a stream with a fixed
rate. A query keeps delay statistics per aircraft, per route and per hour, on a Spark cluster on this machine,
which is rescaled while the stream runs: new processes are started, bins move to them, others are emptied and ended.

At the end the state of the query is compared with pandas' result for the same rows, and latency over time is drawn.
The program that is run is flights.py, in the same folder; nothing in it knows of the demo.
"""

EXAMPLES = """\
examples:
  python demo.py                              all flights in a minute and a half; workers 2, then 4, then 3
  python demo.py --rows 50000 --seconds 20    something shorter
  python demo.py --workers 1,3,2              other numbers of workers, at equal distances
  python demo.py --plot run.png               the plot, and the numbers in run.json in the same folder
  python demo.py --keep                       keep checkpoint and logs in their folder, to inspect them
                                             with `binshift log inspect FOLDER/checkpoint/binshift`

Without a terminal (in CI, into a file) there are plain lines instead of the live table.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit status."""
    options = parse(arguments)
    with one_interrupt():
        return exit_status("demo.py", lambda: int(not show(options, Console()).right))


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options of a command line.

    >>> parse(["--workers", "1,3", "--rows", "500"]).workers
    (1, 3)
    """
    parser = argparse.ArgumentParser(
        "demo.py",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=_positive, default=90.0, help="length of the replay (default: 90)")
    parser.add_argument("--rows", type=_count, help="only the first ROWS flights (default: all)")
    parser.add_argument(
        "--workers", type=_workers, default=(2, 4, 3), metavar="N,N,...", help="numbers of workers (default: 2,4,3)"
    )
    parser.add_argument(
        "--plot", type=_png, default=Path("flights-latency.png"), help="the PNG file (default: flights-latency.png)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the folder with checkpoint and logs")
    given = parser.parse_args(arguments)
    return Options(given.seconds, given.rows, given.workers, given.plot, given.keep)


def _positive(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 3600")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _workers(text: str) -> tuple[int, ...]:
    try:
        return tuple(_count(each) for each in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 2,4,3") from None


def _png(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".png" or not path.resolve().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a .png file in a folder that exists")
    return path
