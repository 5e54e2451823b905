"""What the command lines of the benchmarks share: how they explain themselves, and a run of a minute to see that all works."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from elsewhere import Elsewhere

HOW = """\
`make bench BENCH=NAME ARGS="--quick"` runs it with all that it needs, --quick only to see that it works.
Close everything else first: on two cores, any other work is in the figures. What they mean: docs/benchmarks.md.
"""


WATCH = Elsewhere()
"""Of this process; begins to look once the options are known."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that shows the module's own words, and every default."""

    class Shown(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
        pass

    made = argparse.ArgumentParser(description=description, epilog=HOW, formatter_class=Shown)
    made.add_argument("--quick", action="store_true", help="tiny sizes: the figures mean nothing")
    return made


def parsed(made: argparse.ArgumentParser, quick: Mapping[str, object]) -> argparse.Namespace:
    """The options given; with ``--quick``, these values for all that were not."""
    given = made.parse_args()
    if given.quick:
        made.set_defaults(**quick)
        given = made.parse_args()
    WATCH.start()
    return given
