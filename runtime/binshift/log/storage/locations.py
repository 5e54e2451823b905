"""Locations of checkpoints as users write them: which can be used, which name the same directory, and which are one inside the other."""

from __future__ import annotations

import posixpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from binshift.errors import InvalidSettings


def check_location(location: str) -> str:
    """A checkpoint location that both Spark and the log can use, in Hadoop's spelling.

    >>> check_location("s3://bucket/clicks")
    's3a://bucket/clicks'

    Raises:
        InvalidSettings: its scheme is not supported.
    """
    scheme = urlsplit(location).scheme
    if scheme not in ("", "file", "s3", "s3a"):
        raise InvalidSettings(
            f"the location {location!r} is on {scheme}://, where binshift cannot create a file atomically: "
            "use a path that all pods share, or s3a://"
        )
    return location if scheme != "s3" else "s3a" + location.removeprefix("s3")


def same_location(one: str, other: str) -> bool:
    """Whether both name the same directory.

    >>> same_location("file:///data/clicks/", "/data/clicks"), same_location("s3://b/x", "s3a://b/x")
    (True, True)
    >>> same_location("/data/clicks", "/data/visits")
    False
    """
    return _canonical(one) == _canonical(other)


def _canonical(location: str) -> tuple[str, str, str]:
    parts = urlsplit(location)
    scheme = {"": "file", "s3a": "s3"}.get(parts.scheme, parts.scheme)
    path = {"": location, "file": unquote(parts.path)}.get(parts.scheme, parts.path)
    return scheme, "" if scheme == "file" else parts.netloc, posixpath.normpath(path)


def overlaps(one: str, other: str) -> bool:
    """Whether both name the same directory, or one is inside the other; links on this machine are followed.

    >>> overlaps("/data/clicks/copy", "file:///data/clicks"), overlaps("s3://b/clicks", "s3a://b/clicks-2")
    (True, False)
    """
    parts = [(scheme, host, *_resolved(scheme, path)) for scheme, host, path in map(_canonical, (one, other))]
    short, long = sorted(parts, key=len)
    return long[: len(short)] == short


def _resolved(scheme: str, path: str) -> list[str]:
    found = str(Path(path).resolve()) if scheme == "file" else path
    return [part for part in found.split("/") if part]
