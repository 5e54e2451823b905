"""The command line, `binshift`: finds the command and lets it do the rest.

Each command is a module with ``main(arguments) -> exit status`` and a help text of its own; it is imported only when it
is asked for, so that `binshift log` needs no Spark. A new command is one more line in `COMMANDS`.

Exit status: 0 well (`run`: the program's own status), 1 not so (an error of the tree in `binshift.errors` is one line on stderr, without a traceback), 2 the
command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from binshift import __version__
from binshift.errors import BinshiftError

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("binshift.running.run", "run a program on a cluster on this machine"),
    "status": ("binshift.running.status", "show what a run is doing"),
    "scale": ("binshift.running.scale", "change the number of a run's workers, while its query goes on"),
    "rebalance": ("binshift.running.rebalance", "share the bins of a run by their load, while its query goes on"),
    "bins": ("binshift.running.bins", "show which worker holds how many bins"),
    "migrations": ("binshift.running.migrations", "show what has moved and what moves"),
    "cancel": ("binshift.running.cancel", "cancel a migration"),
    "demo": ("binshift.demo.command", "a year of real flights as a stream on a local cluster, rescaled while it runs"),
    "log": ("binshift.log.tools.inspect", "inspect or verify a checkpoint's log, offline"),
}
"""Name -> (module, what it does in a line)."""

INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Only the command's name is looked at here: everything after it is the command's own, its --help included.
    name, rest = _parser().parse_args(given[:1]).command, given[1:]
    module, _ = COMMANDS[name]
    try:
        return int(import_module(module).main(rest))
    except BinshiftError as error:
        print(f"binshift {name}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"binshift {name}: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "binshift",
        description="Stateful PySpark streaming that rescales while it runs.",
        epilog=f"commands:\n{listed}\n\n`binshift COMMAND --help` says more about each.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="binshift COMMAND ...",
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    parser.add_argument("--version", action="version", version=f"binshift {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
