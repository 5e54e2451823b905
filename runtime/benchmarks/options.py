"""The common command-line options of the benchmarks: help texts, and a short run as a smoke test."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from elsewhere import Elsewhere

HOW = """\
`make bench BENCH=NAME ARGS="--quick"` runs it with its requirements; --quick is only a smoke test.
Close everything else first: on two cores, any other work affects the figures. Their meaning: docs/benchmarks.md.
"""


WATCH = Elsewhere()
"""Of this process; sampling begins once the options are parsed."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that shows the module's docstring, and every default."""

    class Shown(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
        pass

    made = argparse.ArgumentParser(description=description, epilog=HOW, formatter_class=Shown)
    made.add_argument("--quick", action="store_true", help="tiny sizes: the figures have no meaning")
    return made


def parsed(made: argparse.ArgumentParser, quick: Mapping[str, object]) -> argparse.Namespace:
    """The given options; with ``--quick``, these values for the others."""
    given = made.parse_args()
    if given.quick:
        made.set_defaults(**quick)
        given = made.parse_args()
    WATCH.start()
    return given
