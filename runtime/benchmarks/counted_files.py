"""An object store in memory that counts requests and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from binshift.log.storage.contract import Listed
from simulator.faulty import Files


class CountedFiles(Files):
    """See the module.

    Attributes:
        requests: by kind: puts, gets, lists, deletes.
        bytes: written in whole files, by the first part of their names; ``files``: how many of these.
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests, self.bytes, self.files = Counter[str](), Counter[str](), Counter[str]()

    def put(self, name: str, data: bytes) -> None:
        """See `Storage`; the end of an upload is one, too: small files have one part."""
        self._written(name, data)
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """See `Storage`."""
        self._written(name, data)
        return super().put_if_absent(name, data)

    def get(self, name: str) -> bytes:
        """See `Storage`."""
        self.requests["gets"] += 1
        return super().get(name)

    def list(self, prefix: str) -> Iterator[Listed]:
        """See `Storage`; a page has a thousand names."""
        found = [*super().list(prefix)]
        self.requests["lists"] += 1 + len(found) // 1000
        return iter(found)

    def exists(self, name: str) -> bool:
        """See `Storage`."""
        self.requests["gets"] += 1
        return super().exists(name)

    def delete(self, names: Collection[str]) -> None:
        """See `Storage`; a request has up to a thousand names."""
        self.requests["deletes"] += 1 + len(names) // 1000
        super().delete(names)

    def _written(self, name: str, data: bytes) -> None:
        kind = name.partition("/")[0] + "/"
        self.requests["puts"] += 1
        self.bytes[kind] += len(data)
        self.files[kind] += 1
