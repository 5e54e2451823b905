"""How every JSON file of the log is wrapped: a checksum of the rest, a format version, a size limit, strict decoding.

A file is one JSON object whose first field is the checksum of its own name and of all bytes after that field. So any tool can
show it, and a program knows before it parses anything whether a byte was changed or lost, or whether the file was copied from
elsewhere in a log. The format version is checked next, so that a newer binshift's log is rejected as such and not as damaged;
then the file is decoded into its struct, where unknown fields, missing ones and wrong types are errors. Never pickle.

The checksum is XXH3, 64 bits, as 16 hexadecimal digits; blocks of data files have it too. It finds damage (a torn write, a flipped
bit, a file put back from an old backup) and is no defence against a forger, who could write a whole log. On one core it reads
60 GiB/s against 4 of zlib's CRC-32, and leaves one undetected damage in 10^19 rather than in 4 * 10^9.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
import xxhash

from binshift.errors import ForeignLog, LogDamaged, StateTooLarge
from binshift.log.storage.contract import Bytes

FORMAT_VERSION: Final = 4
"""Of every JSON file and of the blocks of data files; raised when an older binshift could misread a newer log, or would take it
for a damaged one, as it does with a field that it does not know."""
FORMATS_READ: Final = (2, 3, FORMAT_VERSION)
"""Older formats have less, and defaults for it: format 2 no watermark in records and no weights in targets, format 3 no time of
the next wake-up and no schemas of the state."""

RESTORE = "restore it from a backup of the checkpoint, or start the query with another checkpoint location"
"""How to repair a file that nothing else can replace."""

_HEAD = b'{"checksum":"'
_DIGEST_LENGTH = 16
_BODY_AT = len(_HEAD) + _DIGEST_LENGTH + len(b'",')

S = TypeVar("S", bound=msgspec.Struct)


class Versioned(msgspec.Struct):
    """What can be read of a file of any version."""

    format: int


_versions = msgspec.json.Decoder(Versioned)


def digest(data: Bytes) -> str:
    """The checksum of ``data``."""
    return xxhash.xxh3_64_hexdigest(memoryview(data))


def named_digest(name: str, data: Bytes) -> str:
    """The checksum of ``data`` as the content of the file ``name``: of another file it is another one."""
    hasher = xxhash.xxh3_64(name.encode() + b"\0")
    hasher.update(memoryview(data))
    return hasher.hexdigest()


def encode(name: str, value: msgspec.Struct, bytes_max: int) -> bytes:
    """The file ``name`` that holds ``value``, whose first field must be ``format``.

    Raises:
        StateTooLarge: it would exceed ``bytes_max``.
    """
    body = msgspec.json.encode(value, order="deterministic")[1:]
    if _BODY_AT + len(body) > bytes_max:
        raise StateTooLarge(
            f"{name} would have {_BODY_AT + len(body)} bytes, more than {bytes_max}: use fewer bins or workers, or have "
            "snapshots and manifests made more often"
        )
    return b"".join((_HEAD, named_digest(name, body).encode(), b'",', body))


def decode(name: str, data: bytes, decoder: msgspec.json.Decoder[S], bytes_max: int, advice: str = RESTORE) -> S:
    """The struct in the file ``name``; ``advice`` is the remedy if it is damaged.

    Raises:
        LogDamaged: it was altered, cut off, copied from another file, or does not hold such a struct.
        ForeignLog: another version of binshift wrote it.
    """
    if len(data) > bytes_max:
        raise LogDamaged(f"{name} has {len(data)} bytes; binshift never writes more than {bytes_max} there: {advice}")
    body = data[_BODY_AT:]
    checksum = data[len(_HEAD) : _BODY_AT]
    named = checksum == named_digest(name, body).encode() + b'",'
    # Format 1 had checksums without names: its files are whole, and foreign.
    if not data.startswith(_HEAD) or not (named or checksum == digest(body).encode() + b'",'):
        raise LogDamaged(
            f"{name} was altered, cut off or put there from elsewhere: its checksum does not match its name and its "
            f"{len(data)} bytes; {advice}"
        )
    try:
        check_version(name, _versions.decode(b"{" + body).format)
        found = decoder.decode(b"{" + body)
    except msgspec.DecodeError as error:
        raise LogDamaged(f"{name} does not have the expected content ({error}): {advice}") from error
    if not named:
        raise LogDamaged(f"{name} has a checksum of an older format; {advice}")
    return found


def check_version(name: str, version: int) -> None:
    """Refuse the file ``name`` if it has a format that is not read here.

    Raises:
        ForeignLog: another version of binshift wrote it.
    """
    if version not in FORMATS_READ:
        raise ForeignLog(
            f"{name} has format {version}; this binshift reads formats {', '.join(map(str, FORMATS_READ))}. Run the binshift "
            "that wrote it, or start the query with another checkpoint location"
        )
