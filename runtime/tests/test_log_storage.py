"""Every kind of storage has the same guarantees; the local one is durable, S3 handles lost responses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import obstore
import pytest
from log_s3 import BUCKET, CREDENTIALS, credentials, s3_server
from log_worlds import DictStorage
from obstore import exceptions

from binshift.errors import InvalidSettings, LogDamaged, LogFileMissing, StorageUnavailable
from binshift.log.storage.contract import READS_AT_ONCE, Listed, Storage, together
from binshift.log.storage.opening import open_storage, probe

RACERS = 50


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Options for a running S3 server; credentials are in the environment meanwhile."""
    with credentials(), s3_server() as options:
        yield options


@pytest.fixture(params=["local", "local, not durable", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str]]:
    """URL and options of an empty storage of each kind."""
    match request.param:
        case "local":
            return str(tmp_path / "log"), {}
        case "local, not durable":
            return (tmp_path / "log").as_uri(), {"durable": "false"}
        case "memory":
            return f"memory://{uuid4().hex}", {}
        case _:
            return f"s3a://{BUCKET}/{uuid4().hex}/log", request.getfixturevalue("s3")


@pytest.fixture
def storage(place: tuple[str, Mapping[str, str]]) -> Storage:
    """An empty storage of each kind."""
    return open_storage(*place)


def names(storage: Storage, prefix: str = "") -> list[str]:
    """The listed names."""
    return [each.name for each in storage.list(prefix)]


def test_files_are_kept_as_written(storage: Storage) -> None:
    """A file can be read completely and in parts, listed in order with its size, replaced, and deleted."""
    storage.put("a/2.bin", b"0123456789")
    storage.put("a/1.bin", b"x")
    storage.put("ab/1.bin", b"other")
    assert storage.get("a/2.bin") == b"0123456789"
    assert storage.get_ranges("a/2.bin", [(7, 10), (0, 2)]) == [b"789", b"01"]
    assert storage.get_ranges("a/2.bin", []) == []
    assert list(storage.list("a/")) == [Listed("a/1.bin", 1), Listed("a/2.bin", 10)]
    assert names(storage) == ["a/1.bin", "a/2.bin", "ab/1.bin"]
    storage.put("a/1.bin", b"new")
    assert storage.get("a/1.bin") == b"new"
    storage.delete(["a/1.bin", "a/gone.bin", "a/2.bin"])
    storage.delete([])
    assert names(storage) == ["ab/1.bin"]
    assert (storage.exists("a/1.bin"), storage.exists("ab/1.bin")) == (False, True)


def test_many_files_come_in_the_given_order(storage: Storage) -> None:
    """All files are returned; a missing one is reported at its turn."""
    content = {f"deltas/{number:02}": b"%d" % number for number in range(20)}
    for name, data in content.items():
        storage.put(name, data)
    wanted = [*reversed(content)]
    assert list(storage.get_all(wanted)) == [content[name] for name in wanted]
    assert list(storage.get_all([])) == []
    reading = storage.get_all([*wanted[:11], "deltas/none", *wanted[11:]])
    assert [next(reading) for _ in range(11)] == [content[name] for name in wanted[:11]]
    with pytest.raises(LogFileMissing, match="deltas/none"):
        next(reading)


def test_files_are_read_together_but_not_far_ahead() -> None:
    """No file is returned before eight are requested, and the ninth is requested only when it is needed."""
    all_there, read = threading.Barrier(READS_AT_ONCE, timeout=30), list[str]()

    def get(name: str) -> bytes:
        read.append(name)
        all_there.wait()
        return name.encode()

    found = together(get, [f"{number}" for number in range(3 * READS_AT_ONCE)])
    assert read == []
    assert next(found) == b"0"
    assert len(read) == READS_AT_ONCE
    assert len(list(found)) == 3 * READS_AT_ONCE - 1


def test_an_empty_storage_is_not_created_by_reading(place: tuple[str, Mapping[str, str]], tmp_path: Path) -> None:
    """Listing, reading and deleting in an empty place neither fails nor creates anything."""
    storage = open_storage(*place)
    assert names(storage) == names(storage, "records/") == []
    assert not storage.exists("records/1")
    storage.delete(["records/1"])
    assert list(tmp_path.iterdir()) == []


def test_missing_and_short_files_are_named(storage: Storage) -> None:
    """A missing file and a range beyond a file's end are errors that name the file, each of its own kind."""
    storage.put("deltas/short", b"123")
    for read in (lambda: storage.get("deltas/gone"), lambda: storage.get_ranges("deltas/gone", [(0, 1)])):
        with pytest.raises(LogFileMissing, match="deltas/gone"):
            read()
    for beyond in ([(0, 4)], [(5, 9)]):
        with pytest.raises(LogDamaged, match="deltas/short") as caught:
            storage.get_ranges("deltas/short", beyond)
        assert not isinstance(caught.value, LogFileMissing)


def test_only_the_first_creates(storage: Storage) -> None:
    """Create-if-absent succeeds once; a repetition with the same bytes is treated as a lost response of the first attempt."""
    assert storage.put_if_absent("records/1", b"mine")
    assert not storage.put_if_absent("records/1", b"other")
    assert storage.put_if_absent("records/1", b"mine")
    assert storage.get("records/1") == b"mine"


def test_an_upload_is_visible_whole_or_not_at_all(storage: Storage) -> None:
    """A file written in parts appears when it is finished, and never if it is abandoned."""
    upload = storage.upload("deltas/1/x")
    for _ in range(3):
        upload.write(b"part")
    assert names(storage) == []
    assert not storage.exists("deltas/1/x")
    upload.finish()
    upload.abort()
    assert storage.get("deltas/1/x") == b"partpartpart"
    given_up = storage.upload("deltas/1/y")
    given_up.write(memoryview(b"part"))
    given_up.abort()
    assert names(storage) == ["deltas/1/x"]
    assert names(storage, ".partial/") == []


def test_a_long_upload_is_sent_in_parts(s3: dict[str, str]) -> None:
    """A file larger than one part arrives complete and in order on S3."""
    storage = open_storage(f"s3://{BUCKET}/{uuid4().hex}", s3)
    upload = storage.upload("snapshots/1/x")
    for number in range(5):
        upload.write(bytes([number]) * (2 << 20))
    assert names(storage) == []
    upload.finish()
    assert storage.get("snapshots/1/x") == b"".join(bytes([number]) * (2 << 20) for number in range(5))


def test_of_fifty_processes_one_wins(place: tuple[str, Mapping[str, str]]) -> None:
    """Exactly one of many simultaneous writers creates a name, and all others read its bytes."""
    url, options = place
    if url.startswith("memory"):
        pytest.skip("memory is not shared by processes")
    name = "records/00000000000000000007.json"
    script = Path(__file__).with_name("log_race.py")
    command = [sys.executable, str(script), str(RACERS), name, url, json.dumps(dict(options))]
    environment = {**os.environ, **CREDENTIALS, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    results = [line.split(" ", 2) for line in done.stdout.splitlines()]
    winners = [me for me, won, _ in results if won == "1"]
    assert len(results) == RACERS
    assert len(winners) == 1
    assert {read for _, _, read in results} == {f"racer {winners[0]}"}
    assert names(open_storage(url, options)) == [name]


def test_an_ambiguous_answer_is_resolved_by_reading_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that succeeded although its response was lost counts; one that did not is reported as unknown."""
    storage, real = open_storage(f"memory://{uuid4().hex}"), obstore.put

    def lost_reply(*arguments: object, **options: object) -> object:
        real(*arguments, **options)  # type: ignore[arg-type]
        raise exceptions.GenericError("connection reset")

    def lost_request(*_: object, **__: object) -> object:
        raise exceptions.GenericError("connection reset")

    monkeypatch.setattr(obstore, "put", lost_reply)
    assert storage.put_if_absent("records/1", b"mine")
    monkeypatch.setattr(obstore, "put", lost_request)
    with pytest.raises(StorageUnavailable, match="records/2"):
        storage.put_if_absent("records/2", b"mine")
    assert not storage.put_if_absent("records/1", b"other")


class Overwriting(DictStorage):
    """A store without create-if-absent, such as an old S3 clone that ignores If-None-Match."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True


class Forgetful(DictStorage):
    """A store whose responses to create-if-absent are correct, but which keeps other bytes."""

    def get(self, name: str) -> bytes:
        return super().get(name)[:-1]


class Unlisted(DictStorage):
    """A store whose listings are delayed."""

    def list(self, prefix: str) -> Iterator[Listed]:
        return iter(())


@pytest.mark.parametrize(
    ("kind", "trouble"), [(Overwriting, "overwritten"), (Forgetful, "not what is read"), (Unlisted, "not listed")]
)
def test_the_probe_refuses_an_unfit_store(kind: type[DictStorage], trouble: str) -> None:
    """A store that breaks a guarantee is rejected, with the guarantee named, before it is used."""
    with pytest.raises(InvalidSettings, match=trouble):
        probe(kind(), "nonce")


def test_the_probe_accepts_every_kind_and_leaves_nothing(storage: Storage) -> None:
    """All of binshift's storages pass, and the probe's file is deleted afterwards."""
    probe(storage, uuid4().hex)
    assert names(storage) == []


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("gs://bucket/x", {}, "use a local path"),
        ("/tmp/x", {"secret": "y"}, "unknown log option 'secret'"),
        ("/tmp/x", {"durable": "yes"}, "'true' or 'false'"),
        ("s3://bucket/x", {"retries": "many"}, "whole number"),
        ("file://server/x", {}, "names the host"),
    ],
)
def test_bad_settings_are_refused(url: str, options: dict[str, str], message: str) -> None:
    """A wrong URL or option is an error that shows the value and the fix."""
    with pytest.raises(InvalidSettings, match=message):
        open_storage(url, options)


def test_s3_without_an_answer_is_unavailable() -> None:
    """A server that does not respond is a retryable error."""
    options = {"endpoint": "http://127.0.0.1:9", "region": "us-east-1", "allow_http": "true", "retries": "1"}
    with credentials(), pytest.raises(StorageUnavailable, match="records/1"):
        open_storage(f"s3://{BUCKET}/x", {**options, "timeout_seconds": "2"}).get("records/1")
