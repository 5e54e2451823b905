"""Spark's state in binshift's log: every row arrives, and is read back as Spark's own source reads it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from adopted_processors import SEEN, Forgetful, Remembering, Widened
from adopted_programs import GROUP_STATES, PROCESSORS, PROGRAMS, Program, conf_kept, frame, late, put, rows, run_spark
from pyspark.sql import DataFrame, SparkSession

from binshift.errors import BinshiftError, InvalidQuery, Unsupported
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.storage.opening import open_storage
from binshift.log.tools.verification import verify
from binshift.model import Worker
from binshift.spark.adoption import adopting
from binshift.spark.frontend.evolving import Evolution
from binshift.spark.jobs.batches import with_nudge_source
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.plan.template import Templates
from binshift.spark.reading.sources import register_state_sources
from binshift.spark.session import checkpoint
from binshift.spark.session.jvm import install
from binshift.spark.stages.compiling import compile_program
from binshift.state.descriptions import to_formats

BINS = 16
SIDES = ("left", "right")


@pytest.fixture(autouse=True)
def conf(spark: SparkSession) -> Iterator[None]:
    """Programs set some of the session's."""
    with conf_kept(spark):
        yield


def keep(batch: DataFrame, _: int) -> None:
    """A sink that reads every row."""
    batch.collect()


def compiled(spark: SparkSession, folder: Path, program: Program) -> tuple[DataFrame, Pipeline]:
    """The program as a query would run it."""
    made = frame(spark, folder, program)
    return made, compile_program(made, Templates(spark, install(spark)), program.mode, BINS)


def adopt(spark: SparkSession, folder: Path, program: Program, location: Path) -> Path:
    """Make a checkpoint of binshift of one of Spark; returns its location."""
    made, pipeline = compiled(spark, folder, program)
    new = folder / "new"
    files = open_storage(str(new))
    adoption = adopting.begin(made, pipeline, files, checkpoint.log_url(str(new)), str(location))
    assert adoption is not None
    operators = tuple(
        OperatorFormat(each.name, each.stage.fingerprint, state=to_formats(each.stored)) for each in pipeline.stages
    )
    format = LogFormat(bins=BINS, query=checkpoint.query_id(files), operators=operators)
    log = Log.on(open_storage(checkpoint.log_url(str(new))), format)
    Evolution.of(log.storage, pipeline).record(log)
    adoption.write(log, files, [Worker(0), Worker(1)])
    return new


def rows_of(spark: SparkSession, format: str, location: Path, **options: object) -> list[tuple[Any, Any]]:
    """The keys and values of a store."""
    reader = spark.read.format(format)
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return [(row.key, row.value) for row in reader.load(str(location)).collect()]


def comparable(found: list[tuple[Any, Any]], names: set[str]) -> Counter[str]:
    """Rows with the columns of the value that both have, as text."""
    return Counter(repr((tuple(key), [(name, value[name]) for name in sorted(names)])) for key, value in found)


def common(*found: list[tuple[Any, Any]]) -> set[str]:
    """The names of columns that every list of rows has once."""
    names = [Counter(rows[0][1].__fields__) for rows in found]
    return {name for name in names[0] if all(each[name] == 1 for each in names)}


@pytest.mark.parametrize("name", ["processor with ttl", pytest.param("processor", marks=pytest.mark.oracle)])
def test_adopted_variables_are_spark_s(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Each variable, and the timers, have the columns and rows that Spark's own source reads, also with all of a key in a row (I4)."""
    program = PROCESSORS[name]
    register_state_sources(spark)
    old = run_spark(spark, tmp_path, program, range(2), keep)
    new = adopt(spark, tmp_path, program, old)
    assert verify(open_storage(checkpoint.log_url(str(new)))) == []
    kinds = [{"stateVarName": name} for name in ("value", "list", "map")]
    collected = [{**each, "flattenCollectionTypes": "false"} for each in kinds]
    for options in (*kinds, *collected, {"readRegisteredTimers": "true"}):
        theirs, ours = (
            spark.read.format(source).options(**options).load(str(location)).drop("partition_id")
            for source, location in (("statestore", old), ("binshift-state", new))
        )
        assert ours.schema.simpleString() == theirs.schema.simpleString()
        expected = Counter(map(comparable_row, theirs.collect()))
        assert Counter(map(comparable_row, ours.collect())) == expected != Counter()
    names = [row.stateStoreName for row in spark.read.format("binshift-state-metadata").load(str(new)).collect()]
    assert names == ["list", "map", "value", "timers"]


def test_another_processor_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Another time mode, a missing variable and other types are named; nothing is written."""
    program = PROCESSORS["processor"]
    old = run_spark(spark, tmp_path, program, range(1), keep)
    new = open_storage(str(tmp_path / "new"))

    def refusal(processor: Remembering, time: str = "EventTime") -> str:
        other = Program(lambda f: late(f).groupBy("k").transformWithState(processor, SEEN, "Update", time), "update")
        made = compiled(spark, tmp_path, replace(program, build=other.build))
        with pytest.raises(Unsupported) as refused:
            adopting.begin(*made, new, checkpoint.log_url(str(tmp_path / "new")), str(old))
        return str(refused.value)

    assert "the time mode EventTime" in refusal(Remembering(), "ProcessingTime")
    assert "'list', and the processor has map, value" in refusal(Forgetful())
    assert "columns of the state variable 'value'" in refusal(Widened())
    assert not (tmp_path / "new").exists()


def comparable_row(row: Any) -> str:
    """A row in which the entries of maps have an order."""
    return repr([sorted(each.items()) if isinstance(each, dict) else each for each in row])


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - PROCESSORS.keys() - GROUP_STATES.keys()))
def test_adopted_rows_are_spark_s(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Each operator's keys, and what its values have in common with Spark's, are the ones that Spark's own source reads (I4)."""
    program = PROGRAMS[name]
    register_state_sources(spark)
    old = run_spark(spark, tmp_path, program, range(3), keep)
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    new = adopt(spark, tmp_path, program, old)
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    assert verify(open_storage(checkpoint.log_url(str(new)))) == []
    operators = {row.operatorId for row in spark.read.format("state-metadata").load(str(old)).collect()}
    _, pipeline = compiled(spark, tmp_path, program)
    adopted = [stage.node.spark for stage in pipeline.stages if stage.node is not None]
    assert operators - set(adopted) == (
        {0} if name == "shared" else set()
    )  # its second operator has all columns of the first
    seen = 0
    for number, operator in enumerate(adopted):
        for side in SIDES if program.inputs == 2 else ("none",):
            theirs = rows_of(spark, "statestore", old, operatorId=operator, joinSide=side)
            ours = rows_of(spark, "binshift-state", new, operatorId=number, joinSide=side)
            seen += len(ours)
            assert len(ours) == len(theirs)
            if ours:
                names = common(ours, theirs)
                assert comparable(ours, names) == comparable(theirs, names)
    assert seen


def test_what_cannot_be_adopted_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Another program, a running query, and a checkpoint that is none are named; nothing is written."""
    program = PROGRAMS["global"]
    old = run_spark(spark, tmp_path, program, range(1), keep)
    new = open_storage(str(tmp_path / "new"))
    url = checkpoint.log_url(str(tmp_path / "new"))

    def refusal(other: Program, location: Path) -> str:
        with pytest.raises(BinshiftError) as refused:
            adopting.begin(*compiled(spark, tmp_path, other), new, url, str(location))
        assert isinstance(refused.value, InvalidQuery | Unsupported)
        return str(refused.value)

    assert "has dedupe where" not in refusal(PROGRAMS["duplicates"], old)
    assert "the program has dedupe" in refusal(PROGRAMS["duplicates"], old)
    assert "the buffers count, sum" in refusal(Program(lambda f: f.groupBy().count(), "update"), old)
    assert "the stateful operators 0 (stateStoreSave)" in refusal(PROGRAMS["chained"], old)
    assert "is not a checkpoint" in refusal(program, tmp_path / "nothing")
    assert not (tmp_path / "new").exists()
    query = frame(spark, tmp_path, program).writeStream.outputMode("update").foreachBatch(keep)
    running = query.option("checkpointLocation", str(old)).start()
    try:
        assert "stop it first" in refusal(program, old)
    finally:
        running.stop()


def test_an_adoption_that_ended_early_begins_again(spark: SparkSession, tmp_path: Path) -> None:
    """Without the record, the checkpoint is refused, unless the same adoption is repeated; another one is refused."""
    program = PROGRAMS["global"]
    old = run_spark(spark, tmp_path, program, range(1), keep)
    made, pipeline = compiled(spark, tmp_path, program)
    new = tmp_path / "new"
    url, files = checkpoint.log_url(str(new)), open_storage(str(new))
    assert adopting.begin(made, pipeline, files, url, None) is None
    assert adopting.begin(made, pipeline, files, url, str(old)) is not None
    with pytest.raises(InvalidQuery, match="has not been completed"):
        adopting.begin(made, pipeline, files, url, None)
    adopt(spark, tmp_path, program, old)
    assert adopting.begin(made, pipeline, files, url, str(old)) is None
    other = tmp_path / "other"
    other.mkdir()
    (other / "metadata").write_text("{}")
    with pytest.raises(InvalidQuery, match="needs a new checkpointLocation"):
        adopting.begin(made, pipeline, open_storage(str(other)), checkpoint.log_url(str(other)), str(old))


@pytest.mark.parametrize("name", ["windows", "join"])
def test_the_stream_continues_with_the_next_batch(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes the new checkpoint as its own: batch numbers continue, and each further row comes once (I3)."""
    program = PROGRAMS[name]
    old = run_spark(spark, tmp_path, program, range(2), keep)
    new = adopt(spark, tmp_path, program, old)
    last = max(int(path.name) for path in (old / "commits").iterdir() if path.name.isdigit())
    batches: dict[int, int] = {}

    def count(batch: DataFrame, number: int) -> None:
        batches[number] = batch.count()

    source = with_nudge_source(compiled(spark, tmp_path, program)[1].source, spark, f"adopted {name}")
    query = source.writeStream.foreachBatch(count).option("checkpointLocation", str(new)).start()
    try:
        for step in (2, 3):
            put(tmp_path, step, program)
            query.processAllAvailable()
    finally:
        query.stop()
    assert str(query.id) == json.loads((old / "metadata").read_text())["id"]
    assert min(batches) == last + 1
    new_rows = [(each, row) for step in (2, 3) for each in range(program.inputs) for row in rows(step, each)]
    # Spark's optimiser drops right rows without a key before a left outer join.
    assert sum(batches.values()) == sum(each == 0 or row["k"] is not None for each, row in new_rows)
    entry = json.loads((new / "offsets" / str(last + 1)).read_text().splitlines()[1])
    committed = json.loads((old / "commits" / str(last)).read_text().splitlines()[1])
    assert entry["batchWatermarkMs"] == committed["nextBatchWatermarkMs"] > 0
