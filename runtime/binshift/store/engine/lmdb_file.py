"""Is LMDB's file whole? Judged before it is used.

LMDB trusts its file: a wrong byte in it can end the process, hide rows, or let a later write overwrite others. So a file that
may have changed unnoticed (`users`) is verified first: its structure by `lmdb.verify`, which reads bytes and never maps the
file, then each row and blob by its checksum, through LMDB's own cursor.

This module must never show LMDB a file whose structure was not verified.
"""

from __future__ import annotations

from itertools import islice, repeat
from pathlib import Path
from typing import Any

import lmdb
from lmdb import verify

from binshift import binary
from binshift.errors import StoreDamaged
from binshift.store.engine import row_checksums

_ROWS_AT_ONCE = 4096


def trouble(data: Path, row_database: bytes, blob_database: bytes, claim: tuple[str, str]) -> str | None:
    """What is wrong with the file ``data``, which has these two databases; None if it is whole.

    ``claim`` is a blob, by name and content, that it must have: the file of another store is whole too.

    Raises:
        OSError: it cannot be read.
    """
    try:
        problems: list[str] = verify.verify(str(data), subdir=False)  # type: ignore[no-untyped-call]
        if problems:
            return problems[0]
        # The map is as small as the content: address space may be limited.
        with lmdb.open(str(data), subdir=False, map_size=1, readonly=True, lock=False, max_dbs=2) as found:
            main, rows, blobs = (found.open_db(name, create=False) for name in (None, row_database, blob_database))
            with found.begin() as transaction:
                if any(any(database.flags().values()) for database in (main, rows, blobs)):
                    return "a database is of another kind"
                _check_blobs(transaction.cursor(blobs), *claim)
                _check_rows(transaction, rows)
    except (verify.VerifyError, lmdb.Error, StoreDamaged) as error:
        return str(error)
    return None


def _check_blobs(cursor: Any, name: str, content: str) -> None:
    held = {key.decode(errors="replace"): blob for key, blob in cursor}
    blobs = {key: row_checksums.verify_blob(key, blob) for key, blob in held.items()}
    if blobs.get(name) != content.encode():
        raise StoreDamaged(f"it is of {blobs.get(name, b'nothing').decode(errors='replace')}, not of {content}")


def _check_rows(transaction: Any, database: Any) -> None:
    coming = transaction.cursor(database).iternext(values=False)
    while keys := list(islice(coming, _ROWS_AT_ONCE)):
        # By key rather than with the cursor: as fast, and the path to each row is checked as it will be used.
        values = list(map(transaction.get, keys, repeat(None), repeat(database)))
        if None in values:
            raise StoreDamaged("a row is not found by its key")
        row_checksums.verify(binary.of(keys), binary.of(values))
