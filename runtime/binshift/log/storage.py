"""Where the log's bytes are: one small interface over local file systems and S3.

Everything durable in binshift goes through `Storage`. Its one unusual demand is `put_if_absent`: of any number of
writers, on any machines, exactly one creates a name; that is what makes an epoch exist once (invariant I3). It must
never expose a partly written file, and must never answer before the bytes are durable.

A task opens the same storage as the driver from (URL, options); credentials come from the environment, never through
Spark. Local directories have an implementation of our own (`local_files`), since obstore's does not fsync; S3 and
memory are obstore's (`object_store`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from binshift.errors import InvalidSettings
from binshift.log import layout
from binshift.log.checksums import Bytes

ByteRange = tuple[int, int]
"""Start and end, in bytes; the end is not included."""

OPTIONS = frozenset({"durable", "endpoint", "region", "allow_http", "virtual_hosted", "timeout_seconds", "retries"})
"""What `open_storage` understands; credentials are not among them on purpose."""


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

        An ambiguous answer (a lost reply, a retry that met its own first try) is resolved by reading back: a file
        that holds exactly ``data`` is ours. So ``data`` must say who wrote it wherever two writers compete.

        Raises:
            StorageUnavailable: it is not known whether the file exists; the same call again will tell.
        """

    def upload(self, name: str) -> Upload:
        """Begin a file of unknown length, written in parts with bounded memory."""

    def get(self, name: str) -> bytes:
        """A whole file.

        Raises:
            LogFileMissing: there is none.
        """

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, in the order asked for; where each waits for a server, a few are under way together.

        Nothing is read before it is asked for, but for those few. Errors as `get`.
        """

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file, in the order asked for.

        Raises:
            LogFileMissing: there is no such file.
            LogDamaged: it ends before one of the ranges does.
        """

    def list(self, prefix: str) -> Iterator[Listed]:
        """All files under a folder (``"deltas/"``; ``""`` for all but hidden ones), in the order of their names."""

    def exists(self, name: str) -> bool:
        """Whether the file is there."""

    def delete(self, names: Collection[str]) -> None:
        """Remove files; those that are gone already are fine."""


def open_storage(url: str, options: Mapping[str, str] | None = None) -> Storage:
    """The storage at ``url``: a path, ``file://``, ``s3://`` (or ``s3a://``), or ``memory://name`` (this process only).

    Nothing is created before the first write. Options (all text): ``durable`` (local; "true"), and for S3
    ``endpoint``, ``region``, ``allow_http`` ("false"), ``virtual_hosted`` ("false"), ``timeout_seconds`` ("30": of one
    request), ``retries`` ("5"). S3 credentials are taken from the environment (``AWS_ACCESS_KEY_ID`` ... or a role).

    Raises:
        InvalidSettings: another scheme, or an unknown or malformed option.
    """
    given = dict(options or {})
    if unknown := sorted(given.keys() - OPTIONS):
        raise InvalidSettings(f"unknown log option {unknown[0]!r}: choose from {', '.join(sorted(OPTIONS))}")
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        from binshift.log.local_files import LocalStorage

        if parts.netloc not in ("", "localhost"):
            raise InvalidSettings(f"{url!r} names the host {parts.netloc!r}: write file:///{parts.netloc}{parts.path}")
        path = Path(url if not parts.scheme else unquote(parts.path)).absolute()
        return LocalStorage(path, durable=flag(given, "durable", True))
    from binshift.log.object_store import open_memory, open_s3

    if parts.scheme in ("s3", "s3a"):
        return open_s3(f"s3://{parts.netloc}{parts.path}", given)
    if parts.scheme == "memory":
        return open_memory(url)
    raise InvalidSettings(f"a log cannot be kept at {url!r}: use a local path, file:// or s3://")


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


def probe(storage: Storage, nonce: str) -> None:
    """Try out, on a file of its own, that the store does what the log relies on.

    Raises:
        InvalidSettings: it does not: two drivers could write the same epoch there.
    """
    name, mine, other = f"{layout.PROBES}{nonce}", f"first {nonce}".encode(), f"second {nonce}".encode()
    created = storage.put_if_absent(name, mine)
    again = storage.put_if_absent(name, mine)
    overwritten = storage.put_if_absent(name, other)
    read = storage.get(name)
    parts = storage.get_ranges(name, [(0, 5), (6, len(mine))]) if read == mine else []
    listed = [Listed(name, len(mine))] == [each for each in storage.list(layout.PROBES) if each.name == name]
    storage.delete([name])
    trouble = {
        "a new file cannot be created": not created,
        "a repeated write is not recognised as one's own": not again,
        "a file that exists is overwritten by create-if-absent": overwritten or read == other,
        "what is written is not what is read": read != mine or b" ".join(parts) != mine,
        "a file just written is not listed": not listed,
        "a deleted file is still there": storage.exists(name),
    }
    if found := [meaning for meaning, wrong in trouble.items() if wrong]:
        raise InvalidSettings(
            f"the store at {storage.url} cannot keep a log: {found[0]}. Use a file system with hard links, or an S3 "
            "that supports conditional writes (If-None-Match)"
        )
