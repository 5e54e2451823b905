"""The directories in which this process has LMDB environments: one place for each, and a limit on the open ones.

An environment is opened once and kept, as opening is dear; but each takes address space as large as its map, and a process
that serves query after query would open ever more of them. So only the newest few stay open, and a place whose directory is
gone is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

OPEN_MAX: Final = 16
"""Environments that stay open in one process: an executor needs one for each stateful operator."""


class Place(Protocol):
    """What is kept for a directory."""

    def forget(self) -> None:
        """Close the environment as soon as no thread uses it; it opens again by itself."""

    def reset_after_fork(self) -> None:
        """Reset inherited state in a forked child."""


P = TypeVar("P", bound=Place)


class Places(Generic[P]):
    """Places by directory and identity, the least recently wanted first."""

    def __init__(self) -> None:
        self._held: dict[tuple[Path, str], P] = {}
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def of(self, path: Path, identity: str, make: Callable[[], P]) -> P:
        """The place of a directory, made if there is none; another identity's environment there is closed."""
        with self._mutex:
            place = self._held.pop((path, identity), None)
            if place is None:
                self.forget(path)
                self._tidy()
                place = make()
            self._held[path, identity] = place
            return place

    def opened(self, path: Path, identity: str) -> None:
        """The place of a directory has opened its environment, perhaps again: it is the newest, and others may have to close."""
        with self._mutex:
            place = self._held.pop((path, identity), None)
            if place is not None:
                self._tidy()
                self._held[path, identity] = place

    def _tidy(self) -> None:
        """Make room for one more."""
        for (where, identity), place in list(self._held.items())[: 1 - OPEN_MAX]:
            place.forget()
            if not where.exists():
                del self._held[where, identity]

    def forget(self, path: Path | None = None) -> None:
        """Close what is open in ``path``, or everywhere; it opens again by itself."""
        for (where, _), place in list(self._held.items()):
            if path in (None, where):
                place.forget()

    def discard(self, path: Path) -> None:
        """Close the environment in ``path``, which no thread will use any more."""
        with self._mutex:
            self.forget(path)
            self._held = {key: place for key, place in self._held.items() if key[0] != path}

    def reset_after_fork(self) -> None:
        """Reset inherited state in a forked child."""
        self._mutex = threading.Lock()
        for place in self._held.values():
            place.reset_after_fork()
