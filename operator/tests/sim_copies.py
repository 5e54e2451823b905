"""The snapshots of simulated drivers: their copies are lost with the pod of the driver, and what is complete at a location stays."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sim_control import SimControl
from sim_runtime import Query
from sim_server import stamp

from binshift_operator.errors import Changed, Invalid, NotThere, Unreachable

BYTES = 1_000_000
COPY_SECONDS = 5.0


@dataclass
class Copies:
    """The copies of all drivers.

    Attributes:
        clock: seconds since 1970.
        stored: what is complete, by location.
        known: what each driver knows, by the UID of its pod and the name of the snapshot.
        seconds: that a copy takes.
        refused: why a location is refused; ``undeletable``: why files are not removed; ``failing``: why copies fail; ``locked``: `undeletable`, by name.
        occupied: what else all locations have; empty if nothing.
        waiting_max: unfinished copies that a driver remembers; another request is answered as pending.
        removed: the names of snapshots whose files were removed; ``puts``: the names of requested ones.
    """

    clock: Callable[[], float]
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    known: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    seconds: float = COPY_SECONDS
    refused: dict[str, str] = field(default_factory=dict)
    undeletable: str = ""
    locked: dict[str, Exception] = field(default_factory=dict)
    failing: str = ""
    occupied: str = ""
    old: bool = False
    waiting_max: int = 100
    removed: list[str] = field(default_factory=list)
    puts: list[str] = field(default_factory=list)

    def answer(self, query: Query, method: str, path: str, body: Any) -> Any:
        """What the control API of a driver answers."""
        if self.old:
            raise NotThere("no such path")
        if query.state != "Running":
            raise Unreachable("no query is running")
        url = urllib.parse.urlsplit(path)
        name, known = url.path.removeprefix("/v1/snapshots/"), self.known.setdefault(query.pod, {})
        if method == "DELETE":
            if self.undeletable:
                raise Invalid(self.undeletable)
            if name in self.locked:
                raise self.locked[name]
            ((_, location),) = urllib.parse.parse_qsl(url.query)
            known.pop(name, None)
            self.stored.pop(location, None)
            self.removed.append(name)
            return None
        if method == "PUT":
            if name not in known and sum("state" not in each for each in known.values()) >= self.waiting_max:
                self.puts.append(name)
                others = {"state": "Pending", "reason": f"{self.waiting_max} other snapshots are waiting"}
                return {"name": name, "location": body["location"], **others}
            self._put(query, name, body["location"], known)
        if name not in known:
            raise NotThere(f"there is no snapshot {name}")
        return self._shown(known[name])

    def _put(self, query: Query, name: str, location: str, known: dict[str, dict[str, Any]]) -> None:
        self.puts.append(name)
        if location in self.refused:
            raise Invalid(self.refused[location])
        if name in known and known[name]["location"] != location:
            raise Changed(f"snapshot {name} is at {known[name]['location']}")
        if name not in known:
            new = {"name": name, "location": location, "epoch": query.log.epoch, "startedAt": self.clock()}
            if self.occupied:
                new |= {"epoch": None, "state": "Failed", "reason": self.occupied, "finishedAt": stamp(self.clock())}
            known[name] = self.stored.get(location) or new

    def _shown(self, copy: dict[str, Any]) -> dict[str, Any]:
        done = self.clock() - copy["startedAt"] >= self.seconds
        if done and "state" not in copy:
            copy |= {"state": "Failed" if self.failing else "Complete", "reason": self.failing}
            copy |= {"finishedAt": stamp(self.clock())}
            if not self.failing:
                self.stored[copy["location"]] = copy
        copied = BYTES if done else 0
        figures = {"files": 7, "bytes": BYTES, "copiedFiles": 7 * done, "copiedBytes": copied}
        usual = {"state": "Copying", "reason": "", "finishedAt": None}
        return {**usual, **figures, **copy, "startedAt": stamp(copy["startedAt"])}


class SnapshotControl(SimControl):
    """The client of the control API, with snapshots."""

    __slots__ = ("_copies",)
    _copies: Copies

    def _answer(self, query: Query, method: str, path: str, body: Any) -> Any:
        if path.startswith("/v1/snapshots/"):
            return self._copies.answer(query, method, path, body)
        return super()._answer(query, method, path, body)
