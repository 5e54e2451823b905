"""The log's files and a worker's store, as one simulated process sees them: every effect goes through `Faults` first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from binshift.errors import LogDamaged, LogFileMissing, StoreBusy
from binshift.log.storage.contract import ByteRange, Bytes, Listed, Storage, Upload
from binshift.store.engine.contract import KeyValueStore, Transaction
from simulator.faults import Faults, Killed, Process


class Files:
    """A `Storage` in a dictionary: simple, and fast to compare.

    >>> files = Files()
    >>> files.put_if_absent("a", b"1"), files.put_if_absent("a", b"1"), files.put_if_absent("a", b"2")
    (True, True, False)
    """

    url = "memory:"

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        self.content[name] = bytes(data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file; a repetition with the same content succeeds."""
        return self.content.setdefault(name, bytes(data)) == data

    def upload(self, name: str) -> Upload:
        """Begin a file that is written in parts."""
        return _PlainUpload(self, name)

    def get(self, name: str) -> bytes:
        """A whole file."""
        if name not in self.content:
            raise LogFileMissing(f"{name} is not at {self.url}")
        return self.content[name]

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, in order."""
        return map(self.get, names)

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file."""
        content = self.get(name)
        if any(end > len(content) for _, end in ranges):
            raise LogDamaged(f"{name} has {len(content)} bytes")
        return [content[start:end] for start, end in ranges]

    def list(self, prefix: str) -> Iterator[Listed]:
        """All files under a folder, by name."""
        return iter([Listed(name, len(data)) for name, data in sorted(self.content.items()) if name.startswith(prefix)])

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        return name in self.content

    def delete(self, names: Collection[str]) -> None:
        """Remove files."""
        for name in names:
            self.content.pop(name, None)


class _PlainUpload:
    def __init__(self, files: Files, name: str) -> None:
        self._files, self._name, self._parts = files, name, bytearray()

    def write(self, data: Bytes) -> None:
        self._parts += data

    def finish(self) -> None:
        self._files.put(self._name, bytes(self._parts))

    def abort(self) -> None:
        self._parts.clear()


class FaultyStorage:
    """A `Storage` used by one process."""

    def __init__(self, inner: Storage, faults: Faults, process: Process) -> None:
        self._inner, self._faults, self._process = inner, faults, process

    @property
    def url(self) -> str:
        """The location of the files."""
        return self._inner.url

    def put(self, name: str, data: bytes) -> None:
        """An effect."""
        self._faults.effect(self._process, "write", f"put {name}", lambda: self._inner.put(name, data))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """An effect."""
        return self._faults.effect(
            self._process, "write", f"create {name}", lambda: self._inner.put_if_absent(name, data)
        )

    def upload(self, name: str) -> Upload:
        """Only its end is an effect: nothing is visible before."""
        return _FaultyUpload(self._inner.upload(name), name, self._faults, self._process)

    def get(self, name: str) -> bytes:
        """May fail."""
        return self._faults.effect(self._process, "read", name, lambda: self._inner.get(name))

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, in order."""
        return map(self.get, names)

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """May fail."""
        return self._faults.effect(self._process, "read", name, lambda: self._inner.get_ranges(name, ranges))

    def list(self, prefix: str) -> Iterator[Listed]:
        """May fail."""
        return self._faults.effect(self._process, "read", f"list {prefix}", lambda: self._inner.list(prefix))

    def exists(self, name: str) -> bool:
        """May fail."""
        return self._faults.effect(self._process, "read", f"find {name}", lambda: self._inner.exists(name))

    def delete(self, names: Collection[str]) -> None:
        """One effect per file: a process may die between two."""
        for name in names:
            delete = functools.partial(self._inner.delete, [name])
            self._faults.effect(self._process, "write", f"delete {name}", delete)


class _FaultyUpload:
    def __init__(self, inner: Upload, name: str, faults: Faults, process: Process) -> None:
        self._inner, self._name, self._faults, self._process = inner, name, faults, process

    def write(self, data: Bytes) -> None:
        self._inner.write(data)

    def finish(self) -> None:
        self._faults.effect(self._process, "write", f"finish {self._name}", self._inner.finish)

    def abort(self) -> None:
        if not self._process.dead:  # a dead process cleans nothing up
            self._inner.abort()


class FaultyStore:
    """A `KeyValueStore` used by one process: each write transaction is one effect, decided before it begins.

    A writer first waits for the one that holds the lock: ``wait`` lets it end.
    """

    def __init__(
        self, inner: KeyValueStore, faults: Faults, process: Process, wait: Callable[[], None] = lambda: None
    ) -> None:
        self._inner, self._faults, self._process, self._wait = inner, faults, process, wait

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Reading a local store has no effect, and never fails."""
        if self._process.dead:
            raise Killed(self._process, "reading its store")
        with self._inner.read() as transaction:
            yield transaction

    @contextmanager
    def write(self, timeout_seconds: float) -> Iterator[Transaction]:
        """One effect: all of the transaction, or nothing."""
        self._faults.effect(self._process, "store", "a transaction", self._wait, StoreBusy)
        with self._inner.write(timeout_seconds) as transaction:
            yield transaction

    def close(self) -> None:
        """Nothing: the machine's disk outlives the process."""
