"""The examples with a server, by `binshift run` and unchanged: Kafka to Kafka, and everything on S3."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.fs
import pytest
from kafka_broker import broker, jars
from log_s3 import BUCKET, CREDENTIALS
from runs import awaited, run_command, running
from test_cluster_examples import put
from test_cluster_kafka import guide_table
from test_cluster_s3 import alive, server  # noqa: F401 - a fixture

pytestmark = [pytest.mark.cluster, pytest.mark.oracle]

EXAMPLES = Path(__file__).resolve().parents[3] / "runtime" / "examples" / "short"


def test_on_s3(server: None, tmp_path: Path) -> None:  # noqa: F811
    """Checkpoint and results are on the server only; the newest counts are right after a move."""
    source, results = tmp_path / "in", f"{BUCKET}/results"
    put(source, 0, [{"page": "home"}, {"page": "cart"}])
    arguments = (str(source), f"s3a://{results}", f"s3://{BUCKET}/counts")
    with running(tmp_path, str(EXAMPLES / "on_s3.py"), "--workers", "2", "--", *arguments) as process:
        awaited(lambda: alive(process, tmp_path), lambda seen: seen["dataflow"]["epoch"] >= 0)
        scaled = run_command(tmp_path, "scale", "3", "--wait")
        assert scaled.returncode == 0, scaled.stderr
        epoch = alive(process, tmp_path)["dataflow"]["epoch"]
        put(source, 1, [{"page": "home"}])
        awaited(lambda: alive(process, tmp_path), lambda seen: seen["dataflow"]["epoch"] > epoch)
    files = pyarrow.fs.S3FileSystem(
        access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        secret_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=os.environ["AWS_ENDPOINT_URL"],
    )
    rows = ds.dataset(results, filesystem=files, partitioning="hive").to_table().to_pylist()
    newest = {row["page"]: row["count"] for row in sorted(rows, key=lambda row: row["epoch"])}
    assert newest == {"home": 2, "cart": 1}


def test_kafka_to_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that follows the guide for results has the counts after a move."""
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", ":".join(map(str, jars())))
    pages = ["a", "b", "a", "c"]
    with broker(tmp_path / "kafka") as kafka:
        kafka.create("pages", 2)
        kafka.create("counts", 2)

        def table() -> dict[str, int]:
            return {page: int(count) for page, (_, count) in guide_table(kafka, "counts").items()}

        kafka.send("pages", [("", page) for page in pages])
        arguments = (kafka.servers, "pages", "counts", str(tmp_path / "checkpoint"))
        with running(tmp_path, str(EXAMPLES / "kafka_to_kafka.py"), "--workers", "2", "--", *arguments) as process:
            awaited(lambda: alive(process, tmp_path), lambda seen: seen["dataflow"]["epoch"] >= 0)
            scaled = run_command(tmp_path, "scale", "3", "--wait")
            assert scaled.returncode == 0, scaled.stderr
            kafka.send("pages", [("", page) for page in pages])
            awaited(table, lambda found: found == {page: 2 * n for page, n in Counter(pages).items()})
