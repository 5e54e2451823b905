"""Opens the storage at a URL, and tries out that it does what the log relies on.

A task opens the same storage as the driver, from (URL, options); credentials come from the environment, never through Spark.
Local directories have an implementation of our own (`local_files`), as obstore's does not fsync; S3 and memory are obstore's
(`object_store`). Each is loaded when it is wanted: obstore takes long to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from binshift.errors import InvalidSettings
from binshift.log.storage import layout
from binshift.log.storage.contract import Listed, Storage, flag

OPTIONS = frozenset({"durable", "endpoint", "region", "allow_http", "virtual_hosted", "timeout_seconds", "retries"})
"""What `open_storage` understands; credentials are not among them on purpose."""


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
        from binshift.log.storage.local_files import LocalStorage

        if parts.netloc not in ("", "localhost"):
            raise InvalidSettings(f"{url!r} names the host {parts.netloc!r}: write file:///{parts.netloc}{parts.path}")
        path = Path(url if not parts.scheme else unquote(parts.path)).absolute()
        return LocalStorage(path, durable=flag(given, "durable", True))
    from binshift.log.storage.object_store import open_memory, open_s3

    if parts.scheme in ("s3", "s3a"):
        return open_s3(f"s3://{parts.netloc}{parts.path}", given)
    if parts.scheme == "memory":
        return open_memory(url)
    raise InvalidSettings(f"a log cannot be kept at {url!r}: use a local path, file:// or s3://")


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
