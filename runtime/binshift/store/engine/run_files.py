"""The files of a store's sorted runs, and their maps in this process.

This module owns the files of runs: each is written under a number that no listed run has or had, and never changes. Which
files count is listed in the store's own transactions (`runs`); what is not listed is the rest of a transaction that did not
commit, or of a run that is gone, and is removed when the next run is written.

It must never unlink a listed file, nor trust a file that was not compared with its checksum in this process. A mapped file may be
unlinked: its memory stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from binshift.errors import StoreDamaged
from binshift.model import IntArray
from binshift.store.engine import room
from binshift.store.engine.cache_directory import RUN
from binshift.store.engine.sorted_run import RunReader


class RunFile(msgspec.Struct, frozen=True, array_like=True):
    """A listed run.

    Attributes:
        number: names the file.
        checksum: of all its bytes.
        size: of the file, in bytes.
        rows: in it.
        live: of these, rows that count: no later write has replaced, deleted or dropped them.
    """

    number: int
    checksum: bytes
    size: int
    rows: int
    live: int


@dataclass
class MappedRun:
    """A run in memory.

    Attributes:
        file: as it was listed first.
        bins: that have rows in it, ascending.
        content: of the file.
    """

    file: RunFile
    bins: IntArray
    content: pa.Buffer

    @cached_property
    def reader(self) -> RunReader:
        """Its rows.

        Raises:
            StoreDamaged: the file is not what was written.
        """
        if self.content.size != self.file.size or checksum(self.content) != self.file.checksum:
            raise StoreDamaged(f"the file of run {self.file.number} is not what was written")
        return RunReader(self.content)


@dataclass(frozen=True)
class RunSet:
    """Some runs, and which of them have rows of a bin."""

    runs: tuple[MappedRun, ...] = ()

    @cached_property
    def bins(self) -> IntArray:
        """The first of each pair of a bin and the place of a run with rows of it; ascending."""
        return self._spans[0]

    @cached_property
    def places(self) -> IntArray:
        """The second of each pair."""
        return self._spans[1]

    @cached_property
    def _spans(self) -> tuple[IntArray, IntArray]:
        bins = np.concatenate([np.empty(0, np.int32), *(run.bins for run in self.runs)])
        places = np.repeat(np.arange(len(self.runs), dtype=np.int32), [len(run.bins) for run in self.runs])
        order = np.argsort(bins, kind="stable")
        return bins[order], places[order]


class Removed(StoreDamaged):
    """A listed file is not there: it was removed since the listing was read, or is lost."""


class RunFiles:
    """The run files of the store in ``directory``; one object for each process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mapped = RunSet()

    def mapped(self, files: Sequence[RunFile], bins_of: Callable[[RunFile], IntArray]) -> RunSet:
        """The listed files, mapped, in their order.

        Args:
            files: what is listed.
            bins_of: the bins with rows in one of them.

        Raises:
            Removed, StoreDamaged: one is not there; or cannot be read.
        """
        wanted = [(file.number, file.checksum) for file in files]
        before = self._mapped
        known = {(run.file.number, run.file.checksum): run for run in before.runs}
        if wanted == list(known):
            return before
        runs = (
            known.get(name) or MappedRun(file, bins_of(file), self._map(file))
            for name, file in zip(wanted, files, strict=True)
        )
        found = self._mapped = RunSet(tuple(runs))
        return found

    def _map(self, file: RunFile) -> pa.Buffer:
        path = self._path(file.number)
        with room.translate_os_errors(self._directory):
            try:
                with pa.memory_map(str(path)) as found:
                    return found.read_buffer()
            except FileNotFoundError as error:
                raise Removed(f"the file {path} of a run is not there") from error

    def write(self, number: int, content: pa.Buffer, listed: Iterable[int], least_bytes: int) -> None:
        """Write a new file, which leaves ``least_bytes`` on the disk; all others that are not ``listed`` go.

        Needs the write lock.

        Raises:
            DiskFull, InvalidSettings, StoreDamaged: it cannot be written.
        """
        with room.translate_os_errors(self._directory):
            room.check_room(self._directory, content.size, least_bytes)
            for path in {*self._directory.glob(f"*{RUN}")} - {*map(self._path, listed)}:
                path.unlink()
            with self._path(number).open("xb") as file:
                file.write(content)

    def remove(self, numbers: Iterable[int]) -> None:
        """Unlink files that are not listed any more; what cannot be unlinked now is when the next one is written."""
        for number in numbers:
            with suppress(OSError):
                self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self._directory / f"{number}{RUN}"


def checksum(content: pa.Buffer) -> bytes:
    """Of all bytes of a run."""
    return xxhash.xxh3_128_digest(content)
