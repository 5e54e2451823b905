"""Runs a user's program in this process as ``python APP ...`` would, and ends with the process that started this one.

Standard input belongs to that parent: its end means that the parent has ended, and lines on it are messages of the parent. The
program itself has none, as it would have in the background.
"""

from __future__ import annotations

import os
import runpy
import shlex
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Failure:
    """What a program raised.

    Attributes:
        error: itself.
        traceback: as Python shows it, without the frames of binshift's own start code.
    """

    error: Exception
    traceback: str


def submit_arguments(master: str, conf: Mapping[str, str], more: Path | None = None) -> str:
    """The value of ``PYSPARK_SUBMIT_ARGS`` that gives a program its master and conf; ``more``: a file with conf that must not be shown.

    >>> submit_arguments("spark://127.0.0.1:7077", {"spark.app.name": "a b"})
    "--master spark://127.0.0.1:7077 --conf 'spark.app.name=a b' pyspark-shell"
    """
    arguments = ["--master", master]
    for key, value in conf.items():
        arguments += ["--conf", f"{key}={value}"]
    arguments += [] if more is None else ["--properties-file", str(more), "--load-spark-defaults"]
    return shlex.join([*arguments, "pyspark-shell"])


def run_script(app: Path, arguments: Sequence[str]) -> Failure | None:
    """Run a program; returns what it raised. Its own ``sys.exit`` is raised on."""
    sys.argv = [str(app), *arguments]
    sys.path.insert(0, str(app.parent))
    try:
        runpy.run_path(str(app), run_name="__main__")
    except Exception as error:  # whatever the user's program raised is its end, and is shown in full
        return Failure(error, without_ours(traceback.format_exc()))
    return None


def without_ours(text: str) -> str:
    """The traceback without the frames of binshift's own start code."""
    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if line.startswith("  File ") and "<frozen runpy>" in line), None)
    if first is None:
        return text
    last = max(n for n, line in enumerate(lines) if line.startswith("  File ") and "<frozen runpy>" in line)
    # The traceback's own headline, then what comes after runpy's last frame (which shows no source).
    return "".join([lines[0], *lines[last + 1 :]])


def watch_parent(handle: Callable[[bytes], None] = lambda line: None) -> None:
    """Take standard input from the program, hand its lines on from a thread, and end this process when it ends."""
    watched = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        with os.fdopen(watched, "rb") as lines:
            for line in lines:
                handle(line)
        os._exit(1)

    threading.Thread(target=watch, name="binshift-parent", daemon=True).start()
