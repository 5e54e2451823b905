"""Spark's checkpoint files as `LocalCheckpointFiles` writes them: atomic, never overwritten, listed as in Spark."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from awaiting import awaited
from faulty_disk import faulty_disk
from java_stderr import capture_java_stderr
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from binshift.spark.session.checkpoint_files import LOCAL_FILES as OURS
from binshift.spark.session.jvm import install

SPARKS = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"


class Files:
    """One of the managers on a directory."""

    def __init__(self, spark: SparkSession, name: str, directory: Path) -> None:
        install(spark)
        jvm: Any = spark._jvm
        self._jvm = jvm
        self.directory = directory
        gateway: Any = spark.sparkContext._gateway
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        kind = jvm.org.apache.spark.util.Utils.classForName(name, True, False)
        arguments = gateway.new_array(jvm.java.lang.Object, 2)
        arguments[0], arguments[1] = self.path(), conf
        self.manager = kind.getConstructors()[0].newInstance(arguments)

    def path(self, name: str = "") -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"file:{self.directory / name}")

    def create(self, name: str, text: bytes, *, overwrite: bool = False) -> Any:
        stream = self.manager.createAtomic(self.path(name), overwrite)
        stream.write(text)
        return stream

    def listed(self) -> dict[str, int]:
        return {each.getPath().getName(): each.getLen() for each in self.manager.list(self.path())}


@pytest.fixture(params=[OURS, SPARKS], ids=["ours", "Spark's"])
def files(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Files:
    """Both managers must pass the same tests."""
    return Files(spark, request.param, tmp_path)


def test_a_file_is_there_once_it_is_closed(files: Files) -> None:
    """Before, the name does not exist; after, it has the bytes; no other file is left."""
    stream = files.create("7", b"offsets")
    assert not files.manager.exists(files.path("7"))
    stream.close()
    stream.close()
    assert files.manager.exists(files.path("7"))
    assert (files.directory / "7").read_bytes() == b"offsets"
    assert files.listed() == {"7": 7}


def test_a_file_is_not_written_over(files: Files) -> None:
    """If two drivers write the same batch, the second gets an error, and the first's bytes stay."""
    first, second = files.create("7", b"first"), files.create("7", b"second")
    first.close()
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        second.close()
    assert (files.directory / "7").read_bytes() == b"first"
    assert {name for name in files.listed() if not name.startswith(".")} == {"7"}


def test_a_file_is_overwritten_on_request(files: Files) -> None:
    """Overwriting is used by the state store for its own files."""
    files.create("7", b"first").close()
    files.create("7", b"second", overwrite=True).close()
    assert (files.directory / "7").read_bytes() == b"second"


def test_a_cancelled_file_leaves_nothing(files: Files) -> None:
    """Closing it afterwards leaves nothing either."""
    stream = files.create("7", b"half")
    stream.cancel()
    assert files.listed() == {}


def test_directories(files: Files) -> None:
    """They are created with their parents, and deleted with their content, once or twice."""
    inner = files.path("a/b")
    files.manager.mkdirs(inner)
    files.manager.mkdirs(inner)
    assert files.manager.exists(inner)
    files.manager.delete(files.path("a"))
    files.manager.delete(files.path("a"))
    assert not files.manager.exists(inner)
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        files.manager.list(inner)
    assert files.manager.isLocal()


def test_what_was_written_is_read(files: Files) -> None:
    """Through Hadoop's stream."""
    files.create("7", b"offsets").close()
    stream = files.manager.open(files.path("7"))
    assert bytes(stream.readAllBytes()) == b"offsets"
    stream.close()
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        files.manager.open(files.path("8"))


def test_the_directory_is_made(spark: SparkSession, tmp_path: Path) -> None:
    """Spark uses the manager to create a new query's directory."""
    files = Files(spark, OURS, tmp_path / uuid.uuid4().hex / "checkpoint")
    assert files.manager.createCheckpointDirectory().toString() == f"file:{files.directory}"
    assert files.directory.is_dir()


def test_being_stopped_is_no_trouble_of_the_disk(spark: SparkSession, tmp_path: Path) -> None:
    """A query that is stopped interrupts its writer: this is reported as such, at once, without advice to free space."""
    files = Files(spark, OURS, tmp_path)
    java = files._jvm.java
    captured, before = java.io.ByteArrayOutputStream(), java.lang.System.err
    stream = files.create("7", b"offsets")
    java.lang.System.setErr(java.io.PrintStream(captured, True))
    java.lang.Thread.currentThread().interrupt()
    try:
        with pytest.raises(Py4JJavaError, match="ClosedByInterruptException"):
            stream.close()
    finally:
        java.lang.Thread.interrupted()
        java.lang.System.setErr(before)
    assert captured.toString() == ""
    assert files.listed() == {}


def test_files_on_a_failing_disk_are_not_reported_as_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Spark treats a missing offset file as an epoch that was never planned. An unreadable one is tried again until it is readable."""
    with faulty_disk(tmp_path / "faulty") as disk, capture_java_stderr(spark) as captured, ThreadPoolExecutor() as pool:
        files = Files(spark, OURS, disk.path)
        files.create("7", b"offsets").close()
        disk.refuse("EIO")
        there = pool.submit(files.manager.exists, files.path("7"))
        absent = pool.submit(files.manager.exists, files.path("none"))
        opened = pool.submit(files.manager.open, files.path("7"))
        unopened = pool.submit(files.manager.open, files.path("none"))
        listed = pool.submit(files.listed)
        for name, count in {"/7": 2, "/none": 2, "": 1}.items():
            told = f"{disk.path}{name} cannot be read ("
            awaited(captured, lambda text, told=told, count=count: text.count(told) > count, 60)  # type: ignore[misc]
        assert not any(each.done() for each in (there, absent, opened, unopened, listed))
        disk.repair()
        assert there.result(60)
        assert not absent.result(60)
        assert bytes(opened.result(60).readAllBytes()) == b"offsets"
        with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
            unopened.result(60)
        assert listed.result(60) == {"7": 7}


def test_stopping_a_query_ends_the_wait_for_a_failing_disk(spark: SparkSession, tmp_path: Path) -> None:
    """Spark stops a query by an interrupt of its thread: the read ends with the exception that Spark takes for a stop."""
    with faulty_disk(tmp_path / "faulty") as disk, capture_java_stderr(spark):
        files = Files(spark, OURS, disk.path)
        disk.refuse("EIO")
        files._jvm.java.lang.Thread.currentThread().interrupt()
        try:
            with pytest.raises(Py4JJavaError, match="InterruptedIOException"):
                files.listed()
        finally:
            files._jvm.java.lang.Thread.interrupted()


def test_a_file_that_has_its_name_is_not_opened_again(spark: SparkSession, tmp_path: Path) -> None:
    """After the rename the file must not be reopened: a driver that died in between would leave a torn file."""
    with faulty_disk(tmp_path / "faulty") as disk, capture_java_stderr(spark) as captured:
        files = Files(spark, OURS, disk.path)
        disk.refuse("EIO", "unlink")
        files.create("7", b"offsets").close()
        disk.refuse("EIO", "fsyncdir")
        stream = files.create("8", b"offsets")
        closing = threading.Thread(target=stream.close)
        closing.start()
        while captured().count("/8 cannot be written (Input/output error); it is tried again") < 2:
            assert closing.is_alive()
            assert not (disk.path / "8").exists() or (disk.path / "8").read_bytes() == b"offsets"
        written = (disk.path / "8").stat().st_mtime_ns
        disk.repair()
        closing.join(60)
        assert not closing.is_alive()
        assert (disk.path / "8").stat().st_mtime_ns == written
        assert {name: size for name, size in files.listed().items() if not name.startswith(".")} == {"7": 7, "8": 7}


def test_a_file_that_got_its_name_unheard_is_ours(spark: SparkSession, tmp_path: Path) -> None:
    """If a file server's response is lost, the retry finds the name taken by the very bytes that it writes."""
    with faulty_disk(tmp_path / "faulty") as disk, capture_java_stderr(spark) as captured:
        files = Files(spark, OURS, disk.path)
        disk.refuse("EIO", "link, done")
        stream, other = files.create("7", b"offsets"), files.create("7", b"another's")
        with ThreadPoolExecutor() as pool:
            closing = pool.submit(stream.close)
            while "/7 cannot be written (" not in captured():
                assert not closing.done()
            disk.repair()
            closing.result(60)
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            other.close()
        assert (disk.path / "7").read_bytes() == b"offsets"
