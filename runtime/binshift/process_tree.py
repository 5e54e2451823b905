"""Processes and what they started, as Linux's ``/proc`` shows them now."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path


def family(roots: Sequence[int]) -> list[int]:
    """These processes and everything they started."""
    return [*roots, *descendants(*roots)]


def descendants(*roots: int) -> list[int]:
    """Everything these processes started, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found, todo = [], list(roots)
    while todo:
        batch = children.get(todo.pop(), [])
        found += batch
        todo += batch
    return found


def command_line(pid: int) -> bytes:
    """A process's arguments, each ended by a null byte; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = (entry / "stat").read_text()
                yield int(entry.name), int(stat.rpartition(")")[2].split()[1])
