"""Strings that are not UTF-8, names that need quoting, structs of never-null fields: binshift and Spark agree batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from engines import Engine, having, ours, sparks
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructField, StructType
from test_cluster_odd_input import Rows, Sink, compared, put, source

import binshift
from binshift.errors import UserFunctionFailed

pytestmark = pytest.mark.cluster
# Executors do not have the tests' folder.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

TEXTS = (b"a", b"\xff", b"\xc3", b"\xc3\xa9", b"", None, b"\xed\xa0\x80", b"b\xff", b"\x00\xfe", b"\xf0\x9f\x98\x80")
START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "k binary, b binary, v long, ts timestamp"
MIGHTY = {
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.arrow.compression.codec": "zstd",
    "spark.sql.execution.arrow.maxBytesPerBatch": "700",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled": "true",
}
"""Conf of a user's session that changes how rows reach Python."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files of strings as bytes, each a batch; in the last one the event time is far ahead."""
    into = tmp_path_factory.mktemp("odd") / "in"
    for batch, late in enumerate((0, 12, 25, 300)):
        rows = [(TEXTS[(at + batch) % 7], TEXTS[(3 * at + batch) % 10], at) for at in range(40 + batch)]
        keys, texts, numbers = zip(*rows, strict=True)
        times = [START + timedelta(seconds=late + at % 9) for at in numbers]
        columns = [pa.array(each, pa.binary()) for each in (keys, texts)]
        table = [*columns, pa.array(numbers), pa.array(times, pa.timestamp("us", "UTC"))]
        put(into, batch, pa.table(table, names=["k", "b", "v", "ts"]))
    return into


def as_bytes(type: DataType) -> DataType:
    """The type with binary in the place of string: collected strings would lose bytes that are not UTF-8."""
    match type:
        case StringType():
            return BinaryType()
        case ArrayType():
            return ArrayType(as_bytes(type.elementType), type.containsNull)
        case MapType():
            return MapType(as_bytes(type.keyType), as_bytes(type.valueType), type.valueContainsNull)
        case StructType():
            return StructType([StructField(f.name, as_bytes(f.dataType), f.nullable) for f in type])
        case _:
            return type


def taken(engine: Engine, frame: DataFrame, checkpoint: Path, mode: str = "update") -> list[Rows]:
    """The output of a query, of binshift or of Spark, over all files, with strings as bytes and names unchanged."""
    sink = Sink()
    names = [(field.name, field.dataType.simpleString()) for field in frame.schema]

    def keep(rows: DataFrame, epoch: int) -> None:
        assert [(field.name, field.dataType.simpleString()) for field in rows.schema] == names
        numbered = rows.toDF(*(f"c{at}" for at in range(len(names))))
        sink(numbered.select(*(F.col(f.name).cast(as_bytes(f.dataType)) for f in numbered.schema)), epoch)

    writer = engine(frame).outputMode(mode).option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    assert writer.trigger(availableNow=True).start().awaitTermination(240)
    return sink.rows


def same_as_spark(
    frame: DataFrame, checkpoints: Path, mode: str = "update", epochs: int = 4, sparks_frame: DataFrame | None = None
) -> list[Rows]:
    """binshift's output, after checking that it equals Spark's, batch by batch, including names."""
    other = sparks_frame or frame
    assert frame.columns == other.columns
    found = [taken(ours, frame, checkpoints / "ours", mode), taken(sparks, other, checkpoints / "sparks", mode)]
    compared(found)
    assert len(found[0]) == epochs
    return found[0]


def texts(session: SparkSession, folder: Path) -> DataFrame:
    """The stream with its bytes as strings, as from a Kafka topic."""
    return source(session, folder, SCHEMA).select(
        F.col("k").cast("string").alias("k"), F.col("b").cast("string").alias("s"), "v", "ts"
    )


@pytest.mark.parametrize("conf", [{}, MIGHTY], ids=["plain", "other Arrow conf"])
def test_states_hold_strings_that_are_no_utf8(
    conf: dict[str, str], session: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """As key and in the state of every aggregate that keeps values, including nested ones, for any Arrow conf of the session."""

    def grouped(frame: DataFrame) -> DataFrame:
        pair = F.struct("s", F.array("s", "k"), F.lit("x"))
        kept = [
            F.max("s"),
            F.min("s"),
            F.first("s"),
            F.last("s", ignorenulls=True),
            F.max_by("s", "v"),
            F.min_by("v", "s"),
        ]
        lists = [F.sort_array(F.collect_set("s")), F.collect_list("s"), F.collect_list(F.struct("s", "v"))]
        return frame.groupBy("k").agg(*kept, *lists, F.max_by(pair, "v"), F.first(F.array("s", "k")), F.count("s"))

    with having(session, conf):
        found = same_as_spark(grouped(texts(session, folder)), tmp_path)
    assert any("xff" in row[0] for row in found[3])


@pytest.mark.parametrize("mode", ["append", "update"])
def test_windows_of_keys_that_are_no_utf8_end(mode: str, session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """A key is read back from the state when its window is closed; a struct with never-null fields is an ordinary key."""

    def grouped(frame: DataFrame) -> DataFrame:
        key = F.struct("k", F.lit("x").alias("never.null"), F.struct(F.col("v") % 2, F.lit(1)).alias("n")).alias(
            "the key"
        )
        windows = frame.withWatermark("ts", "2 seconds").groupBy(F.window("ts", "10 seconds"), key)
        return windows.agg(F.count("*"), F.max("s")).select("window.end", "`the key`.`never.null`", "*")

    same_as_spark(grouped(texts(session, folder)), tmp_path, mode, epochs=4 if mode == "update" else 3)


NAMES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "unaliased": lambda f: f.groupBy(F.col("v") % 3).agg(F.sum("p.a.m"), F.sum(F.col("v") * 0.5), F.max("p.`x.y`")),
    "dots": lambda f: f.groupBy("`a.b`").agg(F.sum("`a.b`").alias("n.total"), F.count("*")).where("`n.total` > 3"),
    "ticks and spaces": lambda f: f.groupBy("`t``i`", "sp ace").agg(
        F.max(F.col("`t``i`")), F.expr("max(`sp ace`) + 1.5")
    ),
    "empty and twice": lambda f: f.groupBy(F.col("v") % 2).agg(F.sum("v").alias(""), F.sum("v"), F.sum("v")),
    "methods": lambda f: f.groupBy("`sp ace`").sum("p.a.m", "`a.b`"),
    "dict": lambda f: f.groupBy("k").agg({"p.a.m": "max", "`a.b`": "sum", "v": "avg"}),
    "structs": lambda f: (
        f.groupBy(F.struct("p.a", F.lit("x")), F.struct("`a.b`", F.struct("s", F.lit(1).alias("o.o"))).alias("st.r"))
        .agg(F.max_by(F.struct("p", "s"), "v"), F.count("*"))
        .withColumn("new.one", F.col("`st.r`.`a.b`") + 1)
        .drop("count(1)")
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_any_name(name: str, session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Unaliased results, dots, spaces, backticks and empty names, before and after the operator, are as in Spark."""
    rows = texts(session, folder).withColumns({"a.b": F.col("v") % 4, "t`i": F.col("v") % 2, "sp ace": F.col("v") % 5})
    amounts = F.struct((F.col("v") * 2).alias("m"), F.lit(0.5)).alias("a")
    same_as_spark(NAMES[name](rows.withColumn("p", F.struct(amounts, F.col("s").alias("x.y")))), tmp_path)


def test_names_that_differ_in_case_alone(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """With spark.sql.caseSensitive, `A` and `a` are two columns, and the session's own functions exist in every plan."""
    session.udf.register("halved", lambda number: number // 2, "long")
    rows = texts(session, folder).select("k", F.col("v").alias("A"), (F.col("v") % 3).alias("a"))
    with having(session, {"spark.sql.caseSensitive": "true"}):
        frame = rows.groupBy("a").agg(F.sum("A"), F.expr("max(halved(a))"), F.max("k").alias("K"))
        same_as_spark(frame, tmp_path)


KEYED = "a long, `the key` struct<k: string, f: string>"


def greatest(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Per key the greatest text and the number of rows, computed with Arrow alone."""
    names, by = ["a", "k", "f", "best", "n"], ["a", "k", "f"]

    def flat(table: pa.Table, best: pa.ChunkedArray, n: pa.ChunkedArray) -> pa.Table:
        key = table["the key"].combine_chunks()
        return pa.table([table["a"], key.field("k"), key.field("f"), best, n], names=names)

    both = [flat(state, state["best.of"], state["n"]), flat(rows, rows["t ext"], pa.array([1] * len(rows)))]
    found = pa.concat_tables(both).group_by(by, use_threads=False).aggregate([("best", "max"), ("n", "sum")])
    key = pa.StructArray.from_arrays([found[name].combine_chunks() for name in ("k", "f")], names=["k", "f"])
    after = pa.table([found["a"], key, found["best_max"], found["n_sum"]], names=["a", "the key", "best.of", "n"])
    return after, after


def test_functions_over_tables_get_names_and_strings_as_they_are(
    session: SparkSession, folder: Path, tmp_path: Path
) -> None:
    """A vectorised function with keys, rows, state and output of any name and any bytes returns what Spark's aggregate returns."""
    rows = texts(session, folder).withColumnRenamed("s", "t ext").withColumn("a", F.col("v") % 2)
    rows = rows.withColumn("the key", F.struct("k", F.lit("x").alias("f"))).withColumn("__bin", F.lit("7"))

    with having(session, {**MIGHTY, "spark.sql.caseSensitive": "true"}):
        groups = rows.withColumn("A", F.col("v")).groupBy("a", "`the key`")
        state, function = "`best.of` string, n long", binshift.vectorised(greatest)
        frame = groups.applyInPandasWithState(function, f"{KEYED}, {state}", state, "update", "NoTimeout")
        sparks_frame = groups.agg(F.max("`t ext`").alias("best.of"), F.count("*").alias("n"))
        same_as_spark(frame, tmp_path, sparks_frame=sparks_frame)


def measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Strings by Arrow's functions, with their type: the session decides whether it is wide."""
    for batch in batches:
        text = batch.column("s")
        large = pa.array([str(text.type)] * len(text))
        yield pa.record_batch(
            [batch.column("k"), text, pc.binary_length(text).cast("int64"), large], names=list("kslt")
        )


def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Strings by Python's functions, which must be UTF-8."""
    for batch in batches:
        yield pa.record_batch([pa.array(batch.column("s").to_pylist(), pa.string())], names=["s"])


def test_python_functions_get_strings_as_from_spark(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Before and after the operator, Arrow functions get the bytes, plain functions replacement characters, Python text an error."""
    hexed = F.udf(lambda text: None if text is None else text.encode().hex(), useArrow=False)
    schema = "k string, s string, l long, t string"

    def grouped(frame: DataFrame) -> DataFrame:
        rows = (
            frame.mapInArrow(measured, schema)
            .groupBy("k", "t")
            .agg(F.max("s").alias("s"), F.max(hexed("s")), F.sum("l"))
        )
        return rows.select("k", "s", hexed("s").alias("h")).mapInArrow(measured, schema)

    rows = texts(session, folder)
    with having(session, {"spark.sql.execution.arrow.useLargeVarTypes": "true"}):
        same_as_spark(grouped(rows), tmp_path)
    wrong = rows.groupBy("k").agg(F.max("s").alias("s")).mapInArrow(decoded, "s string")
    with pytest.raises(UserFunctionFailed, match="UnicodeDecodeError"):
        taken(ours, wrong, tmp_path / "wrong")
