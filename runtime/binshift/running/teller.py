"""Says what happens, on stderr: standard output is the program's."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Reporter:
    """For people, or as one JSON object a line.

    Attributes:
        output: ``json``, or else text.
    """

    output: str

    def __call__(self, event: str, **facts: object) -> None:
        """An event of the run; an empty fact is left out of a text."""
        if self.output == "json":
            _write(json.dumps({"event": event, **facts}))
            return
        known = {name: value for name, value in facts.items() if value != ""}
        parts = (f"\n{value}" if name == "traceback" else f"; {name}: {value}" for name, value in known.items())
        _write(f"binshift run: {event}" + "".join(parts))

    def said(self, worker: str, line: str) -> None:
        """A line that an executor has said; in a text without any more words than the worker's name."""
        if self.output == "json":
            self("said", worker=worker, line=line)
        else:
            _write(f"{worker}: {line}")


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
