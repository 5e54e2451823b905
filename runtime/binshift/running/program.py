"""Runs the user's program in this process, with the control API beside it: ``python -m binshift.running.program APP ...``.

The API is up before the program's first line and gets the query as soon as that has started; the program knows nothing of
either. When `binshift run` is gone, however that happened, this process ends too: then its standard input does. The program
itself has none, as it would have in the background.

A traceback goes to a file of the run's folder as well, so that `binshift run` can show it after all that Spark says while it ends.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from binshift.control import ControlSettings, serve
from binshift.control.tokens import ADMIN_VARIABLE
from binshift.running.directory import RunDirectory
from binshift.running.environment import RUN_DIRECTORY_VARIABLE
from binshift.spark import query

FAILURE: Final = "failure.txt"
"""In the run's folder: the traceback of the program."""


def main(arguments: Sequence[str]) -> int:
    """Run a program; returns 0, or 1 if it raised. Its own ``sys.exit`` is raised on."""
    _end_with_parent()
    app, directory = Path(arguments[0]), RunDirectory(Path(os.environ[RUN_DIRECTORY_VARIABLE]))
    with serve(ControlSettings.from_environment(os.environ)) as control:
        # What the program starts in turn has no need of it.
        os.environ.pop(ADMIN_VARIABLE, None)
        query.RECORDED.append(directory.publish_recorded)
        query.STARTED.append(control.attach)
        directory.publish(control.api.url)
        sys.argv = [str(app), *arguments[1:]]
        sys.path.insert(0, str(app.parent))
        try:
            runpy.run_path(str(app), run_name="__main__")
        except Exception:  # whatever the user's program raised is shown in full, and is its end
            text = _without_ours(traceback.format_exc())
            (directory.path / FAILURE).write_text(text, encoding="utf-8")
            return 1
    return 0


def _without_ours(text: str) -> str:
    """The traceback without the frames that only say how the program was started."""
    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if line.startswith("  File ") and "<frozen runpy>" in line), None)
    if first is None:
        return text
    last = max(n for n, line in enumerate(lines) if line.startswith("  File ") and "<frozen runpy>" in line)
    # The traceback's own headline, then what comes after runpy's last frame (which shows no source).
    return "".join([lines[0], *lines[last + 1 :]])


def _end_with_parent() -> None:
    """Take standard input for ourselves: its end is the end of `binshift run`."""
    watched = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        while os.read(watched, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="binshift-parent", daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
