"""`binshift bins`: who holds how many bins, or with ``--worker`` which ones."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from binshift.model import Worker
from binshift.running.options import as_json, columns, opened, parser, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Show them; returns the exit status."""
    parsing = parser("bins", "Show which worker holds how many bins. Keys and bytes are estimates, from snapshots.")
    parsing.add_argument("--worker", type=_slot, metavar="W", help="show the single bins of this worker")
    given = parsing.parse_args(arguments)
    _, control = opened(given.run)
    if given.output == "json":
        bins = list(control.bins(given.worker))
        write(as_json({"workers": control.workers().workers, "bins": bins}))
        return 0
    if given.worker is None:
        table = columns("right", "worker", "registered", "bins", "keys", "bytes", "copies")
        for load in control.workers().workers:
            there = "yes" if load.registered else "no"
            table.add_row(str(load.worker), there, *map(_known, (load.bins, load.keys, load.bytes, load.copies)))
    else:
        table = columns("right", "bin", "rows", "bytes", "copies on")
        for each in control.bins(given.worker):
            copies = " ".join(str(copy.worker) for copy in each.copies)
            table.add_row(str(each.bin), _known(each.rows), _known(each.bytes), copies)
    Console().print(table)
    return 0


def _slot(text: str) -> Worker:
    return Worker(int(text))


def _known(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
