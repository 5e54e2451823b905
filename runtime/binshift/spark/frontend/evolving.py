"""The processors of a query that starts, compared with the schemas on its log.

The comparison is complete before anything is written; the new schemas are on the log before any row is written with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from binshift.errors import LogDamaged
from binshift.log.log import Log
from binshift.log.records.envelope import RESTORE
from binshift.log.records.schemas import OperatorSchemas, SchemasFile, add_schemas, newest_schemas
from binshift.log.records.terms import check_newest
from binshift.log.storage.contract import Storage
from binshift.operators.processor.evolution import Encoding, check_keys, evolve
from binshift.spark.plan.pipeline import Pipeline
from binshift.spark.stages.processors import ProcessorStage
from binshift.state.descriptions import schema_of_text
from binshift.state.variables import histories_of, to_schemas


@dataclass(frozen=True)
class Evolution:
    """What becomes of the schemas on a log.

    Attributes:
        found: the newest schemas.
        wanted: those of the query.
        missing: processors that the log has no schemas of.
    """

    found: SchemasFile
    wanted: SchemasFile
    missing: tuple[str, ...]

    @classmethod
    def of(cls, storage: Storage, pipeline: Pipeline) -> Evolution:
        """Compare, and have the stages read and write rows accordingly.

        Raises:
            IncompatibleState: the state cannot be continued; the message begins with Spark's condition.
            LogDamaged: the schemas cannot be read.
        """
        found = newest_schemas(storage)
        known = {each.name: each for each in found.operators}
        operators = tuple(_evolved(pipeline, known))
        wanted = _with_operators(found, operators)
        return cls(found, wanted, tuple(each.name for each in operators if each.name not in known))

    def record(self, log: Log) -> None:
        """Write what is new to the log.

        Raises:
            LogDamaged: a processor has state on the log, but no schemas.
            Fenced: another driver has opened the log.
        """
        if self.missing and not log.index.empty:
            raise LogDamaged(f"{log.storage.url} has no schemas of the state variables of {self.missing[0]}: {RESTORE}")
        if self.wanted != self.found:
            check_newest(log.storage, log.term)
            add_schemas(log.storage, self.wanted)


def _with_operators(found: SchemasFile, operators: tuple[OperatorSchemas, ...]) -> SchemasFile:
    """The file after ``found`` with these operators; ``found`` itself if they are the same."""
    if found.operators == operators:
        return found
    return SchemasFile(number=found.number + 1, operators=operators)


def _evolved(pipeline: Pipeline, known: Mapping[str, OperatorSchemas]) -> Iterator[OperatorSchemas]:
    for compiled in pipeline.stages:
        stage = compiled.stage
        if not isinstance(stage, ProcessorStage):
            continue
        was = known.get(compiled.name)
        rules, defined, keys = stage.rules, stage.defined, stage.named_keys
        if was is not None:
            rules = replace(rules, encoding=Encoding(was.encoding))
            check_keys(schema_of_text(was.keys), keys)
        histories = evolve(() if was is None else histories_of(was), defined.wanted, defined.deleted, rules)
        stage.continue_from(histories)
        yield to_schemas(compiled.name, rules.encoding, keys, histories)
