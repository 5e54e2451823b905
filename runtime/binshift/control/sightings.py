"""When the control API saw a migration begin and end, and for which generation it was asked.

Migrations themselves know no clock. A note is taken at every look (each scrape is one), so that times are late by the
interval of looks at most; of a migration that is asked for through the API the beginning is exact.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

NOTES_MAX: Final = 10_000
"""Migrations that are remembered; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What is noted of one migration; times in seconds since 1970, None where it was not seen."""

    generation: int | None = None
    started: float | None = None
    ended: float | None = None


class Sightings:
    """The notes of one run of a query; any thread may take them."""

    def __init__(self) -> None:
        self._notes: dict[int, Sighting] = {}
        self._lock = threading.Lock()

    def asked_by(self, number: int, generation: int) -> None:
        """A target of that generation asked for this migration."""
        with self._lock:
            self._notes[number] = replace(self._notes.get(number, Sighting()), generation=generation)

    def look(self, seen: Iterable[tuple[int, bool]], now: float) -> None:
        """These migrations are there now; each with whether it has ended."""
        with self._lock:
            for number, ended in seen:
                note = self._notes.get(number, Sighting())
                started = now if note.started is None else note.started
                self._notes[number] = replace(
                    note, started=started, ended=now if ended and not note.ended else note.ended
                )
            for number in list(self._notes)[:-NOTES_MAX]:
                del self._notes[number]

    def of(self, number: int) -> Sighting:
        """What is noted of one."""
        with self._lock:
            return self._notes.get(number, Sighting())
