"""What the driver calls in the JVM for standing tasks; see `binshift.spark.jobs.standing`."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from binshift.model import IntArray
from binshift.spark.session.jvm import Filling, Jvm, java_frame, java_session

SIZE = struct.Struct(">i")


@dataclass(frozen=True)
class Returned:
    """What S has returned in all tasks of a stage.

    Attributes:
        java: the same in the JVM; see `StandingResult.java`.
        session: of its frames.
    """

    java: Any
    session: SparkSession

    def frame(self) -> DataFrame:
        """The rows."""
        return DataFrame(self.java.frame(), self.session)

    def filled(self, template: DataFrame, hole: DataFrame) -> DataFrame | None:
        """The template with these rows in the place of its one hole; None where Spark has to plan it, or to read them."""
        java = self.java.filled(java_frame(template), java_frame(hole))
        return None if java is None else DataFrame(java, self.session)


@dataclass(frozen=True)
class StandingCalls:
    """The driver's end of the standing tasks of one query.

    Attributes:
        jvm: binshift's Java classes.
        name: of the endpoint.
        driver: the endpoint in the JVM; see `StandingDriver.java`.
    """

    jvm: Jvm
    name: str
    driver: Any

    @classmethod
    def open(cls, jvm: Jvm, name: str) -> StandingCalls:
        """Register the endpoint."""
        return cls(jvm, name, jvm.bridge.standingDriver(name))

    def task(self, session: SparkSession, id: str, location: str) -> DataFrame:
        """A frame without rows whose one task serves epochs until the query ends."""
        return DataFrame(self.jvm.bridge.standingTask(java_session(session), self.name, id, location), session)

    def are_ready(self, ids: Iterable[str], seconds: float) -> bool:
        """Whether these tasks wait for an order, or do so within some seconds; a task that has ended is not waited for."""
        return bool(self.driver.areReady(",".join(ids), int(seconds * 1000)))

    def passed(self, ids: Sequence[str], messages: Sequence[bytes]) -> list[bytes | str]:
        """What these tasks answer to a message for each; where there is no answer, the reason as text."""
        found = self.driver.passed(",".join(ids), _joined(messages))
        # Not by an iterator: it ends in an error, and PySpark asks the JVM 90 times which one.
        return [found[at] for at in range(len(ids))]

    def route(self, places: IntArray) -> Any:
        """For `run`: for each bin the position of its owner among the owners of an epoch."""
        return self.jvm.bridge.standingRoute(bytearray(places.astype(">i4").tobytes()))

    def read(self, hole: DataFrame, batch: DataFrame, readers: Sequence[str]) -> DataFrame | None:
        """The rows of a batch, computed once and kept by the readers for the stages of an epoch; None where it needs a Spark job."""
        session = batch.sparkSession
        given = java_session(session), java_frame(hole), java_frame(batch)
        java = self.jvm.bridge.readStanding(self.driver, *given, ",".join(readers))
        return None if java is None else DataFrame(java, session)

    def run(
        self,
        template: DataFrame,
        filling: Filling,
        readers: Sequence[str],
        owners: Sequence[str],
        route: Any,
        orders: Sequence[bytes],
        like: DataFrame,
        *,
        read: tuple[DataFrame, DataFrame] | None,
        later: bool,
        kept: int,
        early: bool,
    ) -> tuple[Returned, list[bytes]] | None:
        """One stage: what S returned, and its answers; None where it needs a Spark job, and nothing has run.

        Args:
            template: of its rows, which are exchanged by bin, and what fills it in.
            filling: holes, and the frames with their rows.
            readers: the tasks that compute the rows before the exchange.
            owners: the tasks that own bins.
            route: see `route`.
            orders: by owner: for S, and then for what reads the state, if something does.
            like: a frame with the columns that S returns.
            read: the hole for what is read of the state, and the template of what Spark makes of it; None where it makes nothing.
            kept: bytes of output of a task that are returned to the driver; where there is no more, the frame is read without a job.
            later: whether what earlier stages of this epoch returned is still needed.
            early: whether aggregations begin before the exchange.
        """
        session = filling[-1][1].sparkSession
        found = self.jvm.bridge.runStanding(
            self.driver,
            java_session(session),
            java_frame(template),
            self.jvm.pairs(filling),
            ",".join(readers),
            ",".join(owners),
            route,
            _joined(orders),
            None if read is None else java_frame(read[1]),
            None if read is None else java_frame(read[0]),
            java_frame(like),
            later,
            kept,
            early,
        )
        return None if found is None else (Returned(found, session), _split(found.answers()))


def _joined(values: Iterable[bytes]) -> bytearray:
    """The values one after the other, each after its size."""
    return bytearray(b"".join(SIZE.pack(len(each)) + each for each in values))


def _split(joined: bytes) -> list[bytes]:
    """Values that stand one after the other, each after its size."""
    found, at = list[bytes](), 0
    while at < len(joined):
        (size,) = SIZE.unpack_from(joined, at)
        at += SIZE.size + size
        found.append(joined[at - size : at])
    return found
