"""The log on a file system: atomic, durable writes without a server.

A file is written under ``.partial/``, fsynced, and only then given its name: by a hard link where it must not exist
yet (the kernel lets exactly one linker win, on NFS too), by a rename where it may. Last the folder is fsynced, so that
the name survives a power cut. obstore's own local store writes, links and renames the same way but never fsyncs
(seen with strace): a commit record could vanish after Spark has moved on.

It must never write into a file that has its final name. ``durable=False`` leaves out the fsyncs, for tests and
benchmarks: a machine that crashes may then lose epochs that were acknowledged.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from binshift import diskerrors, failpoints
from binshift.errors import DiskFull, InvalidSettings, LogDamaged, LogFileMissing, StorageUnavailable
from binshift.invariants import invariant
from binshift.log.storage import layout
from binshift.log.storage.contract import ByteRange, Bytes, Listed, Upload, together

LINK_TRIES_MAX = 10
"""How often a folder that retention keeps removing is made again before giving up."""

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


class LocalStorage:
    """A directory; see `binshift.log.storage.contract.Storage` for what the methods promise."""

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self.durable = durable

    @property
    def url(self) -> str:
        """Where this is, for messages."""
        return self.root.as_uri()

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        upload = self.upload(name)
        try:
            upload.write(data)
            upload.finish()
        finally:
            upload.abort()

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file, or report that another writer has."""
        path = self._path(name)
        with _translated(name, self.url):
            if path.exists():
                return self._is_ours(name, data)
            with contextlib.closing(_PartialFile(self, name)) as partial:
                partial.write(data)
                partial.sync()
                try:
                    self._give_name(partial.path, path, replace=False)
                except FileExistsError:
                    return self._is_ours(name, data)
                except OSError as error:
                    if error.errno in _NO_LINKS:
                        raise InvalidSettings(
                            f"the file system of {self.url} has no hard links ({error.strerror}), without which two "
                            "drivers could write the same epoch: put the checkpoint on another one, or on S3"
                        ) from error
                    raise
        return True

    def upload(self, name: str) -> Upload:
        """Begin a file written in parts."""
        with _translated(name, self.url):
            return _LocalUpload(self, name)

    def get(self, name: str) -> bytes:
        """A whole file."""
        with _translated(name, self.url):
            return self._path(name).read_bytes()

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, together: the directory may be a file server's."""
        return together(self.get, names)

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file."""
        with _translated(name, self.url), self._path(name).open("rb", buffering=0) as file:
            return [self._read_range(name, file.fileno(), start, end) for start, end in ranges]

    def _read_range(self, name: str, descriptor: int, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        while start < end:
            part = os.pread(descriptor, end - start, start)
            if not part:
                raise LogDamaged(f"{name} at {self.url} ends at byte {start}, before byte {end} that the log names")
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def list(self, prefix: str) -> Iterator[Listed]:
        """All files under a folder, by name."""
        invariant(prefix == "" or prefix.endswith("/"), f"{prefix!r} is not a folder")
        with _translated(prefix, self.url):
            yield from self._walk(self._path(prefix) if prefix else self.root, prefix)

    def _walk(self, folder: Path, prefix: str) -> Iterator[Listed]:
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name + "/" * entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in found:
            if not prefix and entry.name == layout.PARTIAL.rstrip("/"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path), f"{prefix}{entry.name}/")
                continue
            with contextlib.suppress(FileNotFoundError):  # deleted while listing: it is not there, then
                yield Listed(prefix + entry.name, entry.stat(follow_symlinks=False).st_size)

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        with _translated(name, self.url):
            return self._path(name).is_file()

    def delete(self, names: Collection[str]) -> None:
        """Remove files."""
        folders: set[Path] = set()
        for name in names:
            path = self._path(name)
            with _translated(name, self.url):
                path.unlink(missing_ok=True)
            failpoints.reached("retention.between")
            folders.add(path.parent)
        folders -= {self.root, self.root / layout.PARTIAL}  # every writer relies on the latter
        for folder in folders:
            with contextlib.suppress(OSError):  # not empty, or gone: both are fine
                folder.rmdir()

    def _is_ours(self, name: str, data: bytes) -> bool:
        """Whether the existing file came from an earlier try of this writer, whose result was not seen."""
        if self.get(name) != data:
            return False
        self._sync_folder(self._path(name).parent)
        return True

    def _give_name(self, partial: Path, path: Path, *, replace: bool) -> None:
        for attempt in range(1, LINK_TRIES_MAX + 1):
            made = self._make_folders(path.parent)
            try:
                if replace:
                    partial.replace(path)
                else:
                    os.link(partial, path)
            except FileNotFoundError:  # the folder was empty a moment ago and retention removed it
                if attempt == LINK_TRIES_MAX:
                    raise
                continue
            for folder in (path.parent, *made):
                self._sync_folder(folder)
            return

    def _make_folders(self, folder: Path) -> Sequence[Path]:
        """Make ``folder``; returns the folders that got a new entry by that, innermost first."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        return [each.parent for each in missing]

    def _sync_folder(self, folder: Path) -> None:
        if not self.durable:
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, name: str) -> Path:
        parts = name.rstrip("/").split("/")
        invariant(name and not {"", ".", ".."} & set(parts), f"{name!r} is no name for a file of the log")
        return self.root.joinpath(*parts)


class _PartialFile:
    """A file under ``.partial/``, which nothing but its writer reads."""

    def __init__(self, storage: LocalStorage, name: str) -> None:
        self.durable = storage.durable
        self.path = storage.root / layout.PARTIAL / f"{secrets.token_hex(8)}-{name.rsplit('/', 1)[-1]}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb", buffering=0)

    def write(self, data: Bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]

    def sync(self) -> None:
        if self.durable:
            os.fsync(self._file.fileno())
        self._file.close()

    def close(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class _LocalUpload:
    """See `binshift.log.storage.contract.Upload`."""

    def __init__(self, storage: LocalStorage, name: str) -> None:
        self._storage, self._name = storage, name
        self._partial = _PartialFile(storage, name)

    def write(self, data: Bytes) -> None:
        with _translated(self._name, self._storage.url):
            self._partial.write(data)

    def finish(self) -> None:
        with _translated(self._name, self._storage.url):
            self._partial.sync()
            self._storage._give_name(self._partial.path, self._storage._path(self._name), replace=True)

    def abort(self) -> None:
        with _translated(self._name, self._storage.url):
            self._partial.close()


@contextlib.contextmanager
def _translated(name: str, url: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise LogFileMissing(f"{name} is not at {url}: {error.strerror}") from error
    except OSError as error:
        if error.errno in diskerrors.REFUSED:
            raise InvalidSettings(
                f"{url} refuses access to {name} ({error.strerror}): give the user that runs binshift the right to "
                "read and write there"
            ) from error
        if error.errno in diskerrors.FULL:
            raise DiskFull(
                f"{url} has no room for {name} ({error.strerror}): free space there, or give the checkpoint a larger disk or "
                "quota; nothing is lost, and it is tried again"
            ) from error
        raise StorageUnavailable(f"{url} failed at {name}: {error.strerror or error}; it is tried again") from error
