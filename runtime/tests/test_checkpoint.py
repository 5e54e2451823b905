"""Reading Spark's part of a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binshift.errors import InvalidSettings, LogDamaged
from binshift.log.storage.locations import check_location
from binshift.log.storage.opening import open_storage
from binshift.model import Epoch
from binshift.spark.session import checkpoint, offsets


def test_a_new_checkpoint_gets_an_id_that_stays(tmp_path: Path) -> None:
    """Spark reads the same file as its own metadata."""
    files = open_storage(str(tmp_path))
    drawn = checkpoint.query_id(files)
    assert checkpoint.query_id(files) == drawn
    assert json.loads((tmp_path / "metadata").read_text()) == {"id": drawn}


def test_damaged_metadata_is_named(tmp_path: Path) -> None:
    """Damaged metadata is an error and is never replaced."""
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(LogDamaged, match="metadata"):
        checkpoint.query_id(open_storage(str(tmp_path)))
    assert (tmp_path / "metadata").read_text() == "{}"


def test_the_last_commit_is_found(tmp_path: Path) -> None:
    """Spark's temporary files and checksums are ignored."""
    files = open_storage(str(tmp_path))
    assert checkpoint.committed(files) == -1
    (tmp_path / "commits").mkdir()
    for name in ("0", "9", "10", ".10.crc", "11.tmp"):
        (tmp_path / "commits" / name).write_text("v1")
    assert checkpoint.committed(files) == 10


def test_a_location_without_conditional_create_is_refused() -> None:
    """The message names the supported locations."""
    assert check_location("s3a://bucket/x") == "s3a://bucket/x"
    with pytest.raises(InvalidSettings, match="hdfs"):
        check_location("hdfs://nn/x")


def test_offsets_give_time_and_a_digest_of_the_input(tmp_path: Path) -> None:
    """The header has time and watermark and is not part of the digest; the sources are."""
    (tmp_path / "offsets").mkdir()
    for epoch, (time_ms, offset) in enumerate([(5, "{}"), (6, "{}"), (6, "[1]")]):
        text = f'v1\n{{"batchWatermarkMs":{epoch},"batchTimestampMs":{time_ms}}}\n{offset}'
        (tmp_path / "offsets" / str(epoch)).write_text(text)
    files = open_storage(str(tmp_path))
    first, second, third = (offsets.read(files, Epoch(epoch)) for epoch in range(3))
    assert (first.batch_time_ms, second.batch_time_ms) == (5, 6)
    assert [each.watermark_ms for each in (first, second, third)] == [0, 1, 2]
    assert first.digest == second.digest != third.digest
    with pytest.raises(LogDamaged, match="offset log"):
        offsets.parse("nonsense")


def test_only_sources_of_the_program_are_new_input(tmp_path: Path) -> None:
    """The nudge source comes last, and its offset moves whenever an epoch is wanted."""
    (tmp_path / "offsets").mkdir()
    for epoch, sources in enumerate(["[1]\n[1]\n0", "[1]\n[1]\n1", "[1]\n[2]\n1", "[2]\n[2]\n2"]):
        text = f'v1\n{{"batchWatermarkMs":{epoch},"batchTimestampMs":{epoch}}}\n{sources}'
        (tmp_path / "offsets" / str(epoch)).write_text(text)
    files = open_storage(str(tmp_path))
    assert [offsets.has_new_input(files, Epoch(epoch)) for epoch in range(4)] == [True, False, True, True]


def test_altered_offsets_of_a_committed_batch_are_named(tmp_path: Path) -> None:
    """Such offsets are an error, because the next batch would begin elsewhere, and rows would be lost or counted twice."""
    (tmp_path / "offsets").mkdir()
    path = tmp_path / "offsets" / "3"
    path.write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n{"at":100}')
    files = open_storage(str(tmp_path))
    recorded = offsets.read(files, Epoch(3)).digest
    offsets.check(files, Epoch(3), recorded)
    path.write_text(path.read_text().replace("100", "900"))
    with pytest.raises(LogDamaged, match=r"offsets/3 .* was altered.*backup"):
        offsets.check(files, Epoch(3), recorded)
