"""The command line, `binshift`: finds the command and lets it do the rest.

Each command is a function ``(arguments) -> exit status`` with a help text of its own; its module is imported only when it
is called, so that `binshift log` needs no Spark. A new command is one more line in `COMMANDS`.

Exit status: 0 well (`run`: the program's own status), 1 not so (an error of the tree in `binshift.errors` is one line on stderr, without a traceback), 2 the
command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Final

from binshift import __version__
from binshift.hosting.exits import exit_status

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "init": (
        "binshift.hosting.local.init:main",
        "write a program, its test, a Dockerfile and a manifest to start from",
    ),
    "run": ("binshift.hosting.local.run:main", "run a program on a cluster on this machine"),
    "status": ("binshift.hosting.local.show:status", "show what a run is doing"),
    "page": ("binshift.hosting.local.show:page", "print the address of a run's page, for a browser"),
    "scale": ("binshift.hosting.local.move:scale", "change the number of workers while the query runs"),
    "rebalance": (
        "binshift.hosting.local.move:rebalance",
        "share the bins of a run by their load while the query runs",
    ),
    "bins": ("binshift.hosting.local.show:bins", "show which worker holds how many bins"),
    "migrations": ("binshift.hosting.local.show:migrations", "show past and running migrations"),
    "cancel": ("binshift.hosting.local.move:cancel", "cancel a migration"),
    "snapshot": ("binshift.hosting.local.snapshot:main", "copy the checkpoint of a run while the query runs"),
    "adopt": ("binshift.hosting.local.adopt:main", "continue a stopped Spark query with its state"),
    "state": ("binshift.state.command:main", "show the state that a query keeps, offline"),
    "completion": ("binshift.completion:main", "print a script for the shell's completion"),
    "log": ("binshift.log.tools.inspect:main", "inspect or verify a checkpoint's log, offline"),
}
"""Name -> (function, what it does in a line)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Only the command's name is parsed here: everything after it belongs to the command, including --help.
    name, rest = _parser().parse_args(given[:1]).command, given[1:]
    try:
        command = resolve_name(COMMANDS[name][0])
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"binshift {name}: {missing.name} is not installed: pip install 'binshift[runtime]'\n")
        return 1
    return exit_status(f"binshift {name}", lambda: int(command(rest)))


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "binshift",
        description="Stateful PySpark streaming that rescales while it runs.",
        epilog=f"commands:\n{listed}\n\n`binshift COMMAND --help` describes each of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="binshift COMMAND ...",
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("--version", action="version", version=f"binshift {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
