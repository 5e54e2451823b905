"""Where the log's bytes are: one small interface over local file systems and S3.

Everything durable in binshift goes through `Storage`. Its one unusual demand is `put_if_absent`: of any number of
writers, on any machines, exactly one creates a name; that is what makes an epoch exist once (invariant I3). It must
never expose a partly written file, and must never answer before the bytes are durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from binshift.errors import InvalidSettings

Bytes: TypeAlias = bytes | memoryview | pa.Buffer
"""Bytes that need not be copied to be read."""

ByteRange = tuple[int, int]
"""Start and end, in bytes; the end is not included."""

READS_AT_ONCE = 8
"""Files read together: on S3, and on a file server, each costs milliseconds to tens of them of waiting."""


class Listed(NamedTuple):
    """A file that exists."""

    name: str
    bytes: int


class Upload(Protocol):
    """A file being written in parts; invisible until `finish`."""

    def write(self, data: Bytes) -> None:
        """Append ``data``."""

    def finish(self) -> None:
        """Make the file durable and visible under its name, replacing any before it."""

    def abort(self) -> None:
        """Forget what was written; also fine after an error or after `finish`."""


class Storage(Protocol):
    """Files by relative names with ``/``; safe to share between threads.

    Every method raises `StorageUnavailable` when the store does not answer (try again), `DiskFull` when it has no room (try
    again, too), and `InvalidSettings` when it refuses the credentials or permissions.
    """

    @property
    def url(self) -> str:
        """Where this is, for messages."""

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file, durably and atomically, replacing any before it."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file durably and atomically; False if another writer has (read it to see what counts).

        An ambiguous answer (a lost reply, a retry that met its own first try) is resolved by reading back: a file with exactly
        ``data`` was written by this call. So ``data`` must identify its writer wherever two writers compete.

        Raises:
            StorageUnavailable: it is not known whether the file exists; repeat the same call to find out.
        """

    def upload(self, name: str) -> Upload:
        """Begin a file of unknown length, written in parts with bounded memory."""

    def get(self, name: str) -> bytes:
        """A whole file.

        Raises:
            LogFileMissing: there is none.
        """

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, in the given order; where each waits for a server, a few are read concurrently.

        Nothing else is read ahead of its use. Errors as `get`.
        """

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file, in the given order.

        Raises:
            LogFileMissing: there is no such file.
            LogDamaged: it ends before one of the ranges does.
        """

    def list(self, prefix: str) -> Iterator[Listed]:
        """All files under a folder (``"deltas/"``; ``""`` for all but hidden ones), in the order of their names."""

    def exists(self, name: str) -> bool:
        """Whether the file exists."""

    def delete(self, names: Collection[str]) -> None:
        """Remove files; missing ones are ignored."""


def together(get: Callable[[str], bytes], names: Sequence[str]) -> Iterator[bytes]:
    """What ``get`` gives for each name, in their order, with `READS_AT_ONCE` of them under way."""
    if len(names) < 2:
        yield from map(get, names)
        return
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(names))) as pool:
        for at in range(0, len(names), READS_AT_ONCE):
            yield from pool.map(get, names[at : at + READS_AT_ONCE])


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """A yes-or-no option.

    Raises:
        InvalidSettings: it is neither "true" nor "false".
    """
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise InvalidSettings(f"the log option {name} is {options[name]!r}: write 'true' or 'false'")
    return text == "true"


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """A whole, positive option.

    Raises:
        InvalidSettings: it is not such a number.
    """
    text = options.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise InvalidSettings(f"the log option {name} is {text!r}: write a whole number from 1 on")
    return int(text)
