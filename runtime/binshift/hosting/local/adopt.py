"""`binshift adopt`: `binshift run` of a program whose query begins with the state of a stopped Spark query."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from binshift.errors import InvalidSettings
from binshift.hosting.local import run
from binshift.hosting.local.options import location
from binshift.settings import CHECKPOINT_CONF

ADOPT_CONF: Final = "spark.binshift.adopt"

EPILOG: Final = """\
example:
  binshift adopt /data/spark-clicks /data/clicks --program clicks.py --workers 4

APP is the program that wrote SPARK_CHECKPOINT. Its checkpointLocation must be NEW_CHECKPOINT: the program sets none, or
takes os.environ["BINSHIFT_CHECKPOINT"]. Stop the Spark query first. Its checkpoint is only read; what cannot be adopted is reported
before anything is written. Afterwards `binshift run clicks.py --checkpoint /data/clicks` continues the query.
Other options are those of `binshift run`.

Elsewhere, set the conf spark.binshift.adopt=SPARK_CHECKPOINT for the first start.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit status. Errors as `binshift run`."""
    given, rest = _parser().parse_known_args(sys.argv[1:] if arguments is None else list(arguments))
    return run.main(run_arguments(given.spark_checkpoint, given.new_checkpoint, given.program, rest))


def run_arguments(old: str, new: str, program: str, rest: Sequence[str]) -> list[str]:
    """The arguments of `binshift run`.

    >>> run_arguments("/a", "s3://b/c", "app.py", ["--workers", "4"])[:3]
    ['app.py', '--checkpoint', 's3://b/c']

    Raises:
        InvalidSettings: both checkpoints are the same.
    """
    if location(old) == location(new):
        raise InvalidSettings(
            f"both checkpoints are {new}: Spark's is only read, so choose another location for the new one"
        )
    conf = [f"{ADOPT_CONF}={location(old)}", f"{CHECKPOINT_CONF}={location(new)}"]
    return [program, "--checkpoint", location(new), *(part for each in conf for part in ("--conf", each)), *rest]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "binshift adopt",
        description="Continue a stopped Spark query on binshift, with its state, from its next batch.",
        usage="binshift adopt SPARK_CHECKPOINT NEW_CHECKPOINT --program APP [OPTION ...] [-- ARGUMENT ...]",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("spark_checkpoint", help="checkpointLocation of the stopped query")
    parser.add_argument("new_checkpoint", help="empty checkpointLocation for the query on binshift")
    parser.add_argument("--program", required=True, metavar="APP", help="the program: a Python file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
