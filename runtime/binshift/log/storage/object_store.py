"""The log on S3, or in memory for tests: obstore behind the `Storage` interface.

S3 makes an object visible whole or not at all, and durable before it answers; create-if-absent is its conditional
write (If-None-Match). What this adds is honesty about lost replies: obstore repeats a request whose reply got lost,
and the repetition then meets its own object. So "exists already" is believed only after reading it back.

It must never keep credentials: they come from the environment of the process (variables, web identity, instance role).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions
from obstore.store import MemoryStore, ObjectStore, S3Store

if TYPE_CHECKING:
    from obstore.store import S3Config

from binshift import s3
from binshift.errors import InvalidSettings, LogDamaged, LogFileMissing, StorageUnavailable
from binshift.log.storage.contract import ByteRange, Bytes, Listed, Upload, flag, number, together

CONFLICT_TRIES_MAX = 3
"""How often a name is retried if the server reports it as existing and then as missing."""

UPLOAD_PART_BYTES = 8 * 1024 * 1024
"""An upload up to this size is one request; a longer one is sent in parts of this size."""

TIMEOUT_SECONDS = 30
RETRIES = 5

_REFUSED = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.UnknownConfigurationKeyError)


def open_s3(url: str, options: Mapping[str, str]) -> ObjectStorage:
    """A prefix of an S3 bucket; options as in `binshift.log.storage.opening.open_storage`."""
    timeout = number(options, "timeout_seconds", TIMEOUT_SECONDS)
    config: S3Config = {"virtual_hosted_style_request": flag(options, "virtual_hosted", False)}
    if server := options.get("endpoint", s3.endpoint(os.environ)):
        config["endpoint"] = server
    if region := options.get("region", s3.region(os.environ)):
        config["region"] = region
    try:
        store = S3Store.from_url(
            url,
            config=config,
            client_options={
                "allow_http": flag(options, "allow_http", str(server).startswith("http:")),
                "timeout": timedelta(seconds=timeout),
            },
            retry_config={
                "max_retries": number(options, "retries", RETRIES),
                "retry_timeout": timedelta(seconds=2 * timeout),
            },
        )
    except exceptions.BaseError as error:
        raise InvalidSettings(f"the log cannot be opened at {url}: {_short(error)}") from error
    return ObjectStorage(store, url)


@cache
def open_memory(url: str) -> ObjectStorage:
    """The store of this process that goes by ``url``; empty the first time."""
    return ObjectStorage(MemoryStore(), url)


class ObjectStorage:
    """An obstore store; see `binshift.log.storage.contract.Storage` for what the methods promise."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store = store
        self._url = url.rstrip("/")

    @property
    def url(self) -> str:
        """Where this is, for messages."""
        return self._url

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        with self._translated(name):
            obstore.put(self._store, name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file, or report that another writer has."""
        for _ in range(CONFLICT_TRIES_MAX):
            lost: StorageUnavailable | None = None
            try:
                with self._translated(name):
                    obstore.put(self._store, name, data, mode="create", use_multipart=False)
                return True
            except FileExistsError:
                pass
            except StorageUnavailable as error:
                lost = error
            held = self._held(name)
            if held is not None:
                return held == data
            if lost is not None:
                raise lost
        raise StorageUnavailable(f"{self._url} reports {name} as existing and as missing; binshift retries")

    def _held(self, name: str) -> bytes | None:
        try:
            return self.get(name)
        except LogFileMissing:
            return None

    def upload(self, name: str) -> Upload:
        """Begin a file written in parts."""
        return _ObjectUpload(self, name)

    def get(self, name: str) -> bytes:
        """A whole file."""
        with self._translated(name):
            return bytes(obstore.get(self._store, name).bytes())

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, together."""
        return together(self.get, names)

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file."""
        if not ranges:
            return []
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        try:
            with self._translated(name):
                parts = [bytes(part) for part in obstore.get_ranges(self._store, name, starts=starts, ends=ends)]
        except StorageUnavailable as error:
            if (size := self._size(name)) >= max(ends):
                raise
            raise LogDamaged(f"{name} at {self._url} has {size} bytes; the log names byte {max(ends)}") from error
        if any(len(part) != end - start for part, (start, end) in zip(parts, ranges, strict=True)):
            raise LogDamaged(f"{name} at {self._url} ends before byte {max(ends)} that the log names")
        return parts

    def _size(self, name: str) -> int:
        with self._translated(name):
            return int(obstore.head(self._store, name)["size"])

    def list(self, prefix: str) -> Iterator[Listed]:
        """All files under a folder, by name."""
        with self._translated(prefix):
            for batch in obstore.list(self._store, prefix=prefix or None):
                yield from (Listed(each["path"], each["size"]) for each in batch)

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        try:
            self._size(name)
        except LogFileMissing:
            return False
        return True

    def delete(self, names: Collection[str]) -> None:
        """Remove files."""
        if not names:
            return
        try:
            with self._translated(next(iter(names))):
                obstore.delete(self._store, list(names))
        except LogFileMissing:  # a bulk delete stops there in some stores, and not in S3
            for name in names:
                with contextlib.suppress(LogFileMissing), self._translated(name):
                    obstore.delete(self._store, name)

    @contextlib.contextmanager
    def _translated(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise LogFileMissing(f"{name} is not at {self._url}") from error
        except exceptions.AlreadyExistsError as error:
            raise FileExistsError(name) from error
        except _REFUSED as error:
            raise InvalidSettings(
                f"{self._url} refuses access to {name}: {_short(error)}; check the credentials in the environment"
            ) from error
        except (exceptions.BaseError, OSError) as error:
            raise StorageUnavailable(f"{self._url} failed at {name}: {_short(error)}; it is tried again") from error


class _ObjectUpload:
    """See `binshift.log.storage.contract.Upload`. An upload that is never closed leaves no object behind."""

    def __init__(self, storage: ObjectStorage, name: str) -> None:
        self._storage, self._name = storage, name
        with storage._translated(name):
            self._writer = obstore.open_writer(storage._store, name, buffer_size=UPLOAD_PART_BYTES)

    def write(self, data: Bytes) -> None:
        with self._storage._translated(self._name):
            self._writer.write(memoryview(data).cast("B"))  # Arrow's buffers call their bytes signed

    def finish(self) -> None:
        with self._storage._translated(self._name):
            self._writer.close()

    def abort(self) -> None:
        """Nothing to do: parts of an upload that was never closed are never an object (a lifecycle rule frees them)."""


def _short(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300]
