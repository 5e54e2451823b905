"""Files of the log that tasks are still writing, during a collection."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_drivers import FORMAT

from binshift.errors import InvalidSettings
from binshift.log.log import PARTIAL_GRACE_SECONDS, Log
from binshift.log.storage import layout
from binshift.log.storage.local_files import LocalStorage
from binshift.model import Epoch
from binshift.settings import Settings


def test_a_collection_leaves_what_is_being_written(tmp_path: Path) -> None:
    """With any grace period, a task can finish its file during collections; an abandoned file is deleted in the end."""
    storage = LocalStorage(tmp_path, durable=False)
    log = Log.on(storage, FORMAT, grace_seconds=0.0)
    upload, abandoned = storage.upload("deltas/x"), storage.upload("deltas/y")
    upload.write(b"some rows")
    for now in (0.0, 10.0, 20.0):
        log.collect(spark_committed=Epoch(-1), now=now)
        assert len(list(storage.list(layout.PARTIAL))) == 2
    upload.finish()
    assert storage.get("deltas/x") == b"some rows"
    assert len(list(storage.list(layout.PARTIAL))) == 1
    log.collect(spark_committed=Epoch(-1), now=PARTIAL_GRACE_SECONDS)
    assert list(storage.list(layout.PARTIAL)) == []
    abandoned.abort()


def test_some_grace_there_is() -> None:
    """A grace period of zero, shorter than the readers of a running epoch need, is rejected."""
    with pytest.raises(InvalidSettings, match="log_grace_seconds is 0; it must be at least 1"):
        Settings(log_grace_seconds=0)
