"""Runs the user's program in this process, with the control API: ``python -m binshift.hosting.local.program APP ...``.

The API is up before the program's first line and gets the query as soon as that has started. The program's stateful queries
run on binshift, unless its conf has ``spark.binshift.enabled=false``; it knows nothing of any of this. When `binshift run` is gone, however that happened, this process ends too.

A traceback is also written to the run's folder, so that `binshift run` can show it after all that Spark logs while it ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from binshift.control import ControlSettings, serve
from binshift.control.auth import ADMIN_VARIABLE
from binshift.encryption import AUTHORITY
from binshift.hosting.local.directory import RunDirectory
from binshift.hosting.local.environment import RUN_DIRECTORY_VARIABLE
from binshift.hosting.program import run_script, watch_parent
from binshift.spark.frontend.host import Host, hosting
from binshift.spark.frontend.installing import install

FAILURE: Final = "failure.txt"
"""In the run's folder: the traceback of the program."""


def main(arguments: Sequence[str]) -> int:
    """Run a program; returns 0, or 1 if it raised. Its own ``sys.exit`` is raised on."""
    watch_parent()
    app, directory = Path(arguments[0]), RunDirectory(Path(os.environ[RUN_DIRECTORY_VARIABLE]))
    settings = ControlSettings.from_environment(os.environ)
    with serve(settings) as control:
        # What the program starts in turn has no need of it.
        os.environ.pop(ADMIN_VARIABLE, None)
        directory.publish(control.api.url, None if settings.tls is None else str(settings.tls / AUTHORITY))
        with hosting(Host(recorded=directory.publish_recorded, started=control.attach)):
            install()
            failure = run_script(app, arguments[1:])
        if failure is not None:
            (directory.path / FAILURE).write_text(failure.traceback, encoding="utf-8")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
