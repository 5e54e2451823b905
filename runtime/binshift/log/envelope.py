"""How every JSON file of the log is wrapped: a checksum of the rest, a format version, a size limit, strict decoding.

A file is one JSON object whose first field is the checksum of all bytes after that field. So a person can read it with
any tool, and a program knows before it parses anything whether a byte was changed or lost. Then the format version
is looked at alone, so that a newer binshift's log is refused as such and not as damaged; then the whole is
decoded into its struct, where unknown fields, missing ones and wrong types are errors. Never pickle.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from binshift.errors import ForeignLog, LogDamaged, StateTooLarge
from binshift.log.checksums import DIGEST_LENGTH, digest

FORMAT_VERSION = 1
"""Of every JSON file and of the blocks of data files; raised when an older binshift could misread a newer log."""

_HEAD = b'{"checksum":"'
_BODY_AT = len(_HEAD) + DIGEST_LENGTH + len(b'",')

S = TypeVar("S", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    format: int


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
    return b"".join((_HEAD, digest(body).encode(), b'",', body))


def decode(name: str, data: bytes, kind: type[S], bytes_max: int) -> S:
    """The struct in the file ``name``.

    Raises:
        LogDamaged: it was altered, cut off, or does not hold such a struct.
        ForeignLog: another version of binshift wrote it.
    """
    if len(data) > bytes_max:
        raise LogDamaged(f"{name} has {len(data)} bytes; binshift never writes more than {bytes_max} there")
    body = data[_BODY_AT:]
    if not data.startswith(_HEAD) or data[len(_HEAD) : _BODY_AT] != digest(body).encode() + b'",':
        raise LogDamaged(f"{name} was altered or cut off: its checksum does not match its {len(data)} bytes")
    try:
        version = msgspec.json.decode(b"{" + body, type=_Versioned).format
        if version != FORMAT_VERSION:
            raise ForeignLog(
                f"{name} has format {version}; this binshift reads format {FORMAT_VERSION}. Run the binshift that wrote "
                "it, or start the query with another checkpoint location"
            )
        return msgspec.json.decode(b"{" + body, type=kind, strict=True)
    except msgspec.DecodeError as error:
        raise LogDamaged(f"{name} is not what it should be: {error}") from error
