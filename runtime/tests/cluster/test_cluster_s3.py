"""A dataflow whose checkpoint is only on S3 is rescaled, its driver is killed and restarted, and every row is correct."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from log_s3 import BUCKET, CREDENTIALS, s3_server
from runs import awaited, left, run_command, running, status

from binshift.log.tools.inspect import verify

pytestmark = [pytest.mark.cluster, pytest.mark.oracle]

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "runtime" / "examples" / "minimal" / "minimal.py"
KEYS = 100
CHECKPOINT = f"s3://{BUCKET}/clicks"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An S3 server that all processes find by the usual variables, and Spark's jars for it."""
    jars = tmp_path.parent / "s3-jars"
    subprocess.run([ROOT / "scripts" / "s3-jars.sh", jars], check=True, timeout=300)
    with s3_server(threaded=True) as options:
        variables = CREDENTIALS | {"AWS_ENDPOINT_URL": options["endpoint"], "AWS_REGION": options["region"]}
        for name, value in (
            variables | {"SPARK_DIST_CLASSPATH": f"{jars}/*", "BINSHIFT_CHECKPOINT": CHECKPOINT}
        ).items():
            monkeypatch.setenv(name, value)
        yield


def test_a_checkpoint_on_s3(server: None, tmp_path: Path) -> None:
    """Log and Spark's part of the checkpoint are on the server; a restarted driver finds both."""
    arguments = (str(PROGRAM), "--workers", "2", "--", str(tmp_path / "out"), "--keys", str(KEYS))
    with running(tmp_path, *arguments) as process:
        awaited(lambda: alive(process, tmp_path), lambda seen: seen["dataflow"]["epoch"] >= 3)
        scaled = run_command(tmp_path, "scale", "3", "--wait")
        assert scaled.returncode == 0, scaled.stderr
        process.kill()
        process.wait(60)
    awaited(lambda: left(tmp_path), lambda found: not found)
    with running(tmp_path, *arguments) as process:
        again = awaited(lambda: alive(process, tmp_path), lambda seen: seen["dataflow"]["epoch"] >= 0)["dataflow"][
            "epoch"
        ]
        awaited(lambda: alive(process, tmp_path), lambda seen: seen["dataflow"]["epoch"] >= again + 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    assert verify(f"{CHECKPOINT}/binshift") == []
    assert not list(tmp_path.rglob("offsets"))
    assert wrong(tmp_path / "out") == []


def alive(process: subprocess.Popen[bytes], folder: Path) -> Any:
    """The status of a run that must not have ended."""
    assert process.poll() is None, (folder / "run.log").read_text(errors="replace")[-4000:]
    return status(folder)


def wrong(out: Path) -> list[dict[str, int]]:
    """Rows with wrong values: the correct values of a key are ``key + i * KEYS``, without a gap."""
    rows = ds.dataset(out, partitioning="hive").to_table().to_pylist()
    assert len(rows) > 10 * KEYS
    assert {row["key"] for row in rows} == set(range(KEYS))

    def right(key: int, count: int) -> tuple[int, int]:
        return sum(key + i * KEYS for i in range(count)), key + (count - 1) * KEYS

    # An epoch has whole seconds of the source, and each second has equally many values of every key.
    newest = {max(row["rows"] for row in rows if row["key"] == key) for key in range(KEYS)}
    assert len(newest) == 1
    return [row for row in rows if (row["total"], row["newest"]) != right(row["key"], row["rows"])]
