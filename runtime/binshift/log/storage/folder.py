"""A folder of a storage, as a storage of its own: the log's part of a checkpoint that is one storage as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from binshift.log.storage.contract import ByteRange, Listed, Storage, Upload


class Folder:
    """The files of ``storage`` under ``prefix``, which ends with a slash; see `binshift.log.storage.contract.Storage`."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage, self._prefix = storage, prefix

    @property
    def url(self) -> str:
        """Where this is, for messages."""
        return f"{self._storage.url.rstrip('/')}/{self._prefix.rstrip('/')}"

    def put(self, name: str, data: bytes) -> None:
        """Write a whole file."""
        self._storage.put(self._prefix + name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create a file, or report that another writer has."""
        return self._storage.put_if_absent(self._prefix + name, data)

    def upload(self, name: str) -> Upload:
        """Begin a file written in parts."""
        return self._storage.upload(self._prefix + name)

    def get(self, name: str) -> bytes:
        """A whole file."""
        return self._storage.get(self._prefix + name)

    def get_all(self, names: Sequence[str]) -> Iterator[bytes]:
        """Whole files, together."""
        return self._storage.get_all([self._prefix + name for name in names])

    def get_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Parts of a file."""
        return self._storage.get_ranges(self._prefix + name, ranges)

    def list(self, prefix: str) -> Iterator[Listed]:
        """All files under a folder, by name."""
        for each in self._storage.list(self._prefix + prefix):
            yield Listed(each.name.removeprefix(self._prefix), each.bytes)

    def exists(self, name: str) -> bool:
        """Whether the file exists."""
        return self._storage.exists(self._prefix + name)

    def delete(self, names: Collection[str]) -> None:
        """Remove files."""
        self._storage.delete([self._prefix + name for name in names])
