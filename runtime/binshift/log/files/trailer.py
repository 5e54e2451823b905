"""The last bytes of a data file: where each block is, which bins it holds, and its checksum.

```
block 0 | block 1 | ... | trailer (msgpack) | length of the trailer, 4 bytes | "binshift"
```

A block is an Arrow IPC record-batch message with `ENTRY_SCHEMA` columns. The commit record names the trailer's checksum, the
trailer names the blocks': a reader of one bin checks every byte it uses against the record, without reading the rest, and
without hashing a file twice. Nothing here does I/O.
"""

from __future__ import annotations

import struct

import msgspec
import numpy as np

from binshift.errors import LogDamaged
from binshift.log.records.envelope import FORMAT_VERSION, Versioned, check_version, digest
from binshift.model import BinSet

MAGIC = b"binshift"
_LENGTH = struct.Struct("<I")
TAIL_BYTES = _LENGTH.size + len(MAGIC)


class Block(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One block of a file.

    Attributes:
        start: its first byte in the file.
        bytes: its length.
        rows: rows in it.
        bin_first: the smallest bin in it.
        bin_last: the largest; the next block may continue with the same bin.
        run: rows of a later run take precedence over those of an earlier one.
        checksum: of its bytes.
    """

    start: int
    bytes: int
    rows: int
    bin_first: int
    bin_last: int
    run: int
    checksum: str

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.start + self.bytes


class Trailer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All blocks of a file, in the order of the file."""

    format: int
    blocks: tuple[Block, ...]

    def holding(self, bins: BinSet) -> list[Block]:
        """The blocks that may have rows of ``bins``."""
        if not len(bins) or not self.blocks:
            return []
        firsts = np.fromiter((b.bin_first for b in self.blocks), dtype=np.int32)
        lasts = np.fromiter((b.bin_last for b in self.blocks), dtype=np.int32)
        at = np.searchsorted(bins.array, firsts)
        hits = (at < len(bins)) & (bins.array[np.minimum(at, len(bins) - 1)] <= lasts)
        return [self.blocks[i] for i in np.flatnonzero(hits).tolist()]


_versions, _trailers = msgspec.msgpack.Decoder(Versioned), msgspec.msgpack.Decoder(Trailer)


def encode_trailer(blocks: list[Block]) -> bytes:
    """The trailer for ``blocks``, with length and magic."""
    body = msgspec.msgpack.encode(Trailer(FORMAT_VERSION, tuple(blocks)))
    return body + _LENGTH.pack(len(body)) + MAGIC


def decode_trailer(name: str, data: bytes, checksum: str, file_bytes: int) -> Trailer:
    """The trailer of the file ``name``, which has ``file_bytes`` bytes in all.

    Raises:
        LogDamaged: it is not the trailer with that checksum, or its blocks do not fill the file.
        ForeignLog: another version of binshift wrote it.
    """
    if digest(data) != checksum:
        raise LogDamaged(
            f"{name} is damaged: the checksum of its trailer is {digest(data)}, not {checksum} as recorded"
        )
    body = data[:-TAIL_BYTES]
    if data[-TAIL_BYTES:] != _LENGTH.pack(len(body)) + MAGIC:
        raise LogDamaged(f"{name} does not end as a data file of binshift does")
    try:
        check_version(name, _versions.decode(body).format)
        trailer = _trailers.decode(body)
    except msgspec.DecodeError as error:
        raise LogDamaged(f"{name} has a damaged trailer: {error}") from error
    ends = [0, *(block.end for block in trailer.blocks)]
    if [block.start for block in trailer.blocks] != ends[:-1] or ends[-1] != file_bytes - len(data):
        raise LogDamaged(f"{name} has a trailer whose blocks do not fill its {file_bytes} bytes")
    return trailer
