"""PySpark's own streaming tests, which its wheel contains, with their stateful queries run by binshift.

    python -m conformance.pyspark_tests            all suites
    python -m conformance.pyspark_tests listener   tests with "listener" in their names, which include those of their suites

A test counts if it starts a query with state. One that binshift passes or fails also runs on Spark, in the same process: only
what Spark passes there is compared, because some tests need packages that are not installed. A test whose query binshift
refuses is reported as refused, with the reason, and one of `KNOWN_DIFFERENCES` as known. Exit status: 0 if no other test that passes on
Spark fails on binshift, else 1.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import unittest
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.testing.sqlutils import ReusedSQLTestCase

from binshift.errors import Unsupported
from binshift.settings import ENABLED_CONF
from binshift.spark.frontend.writer import StatefulStreamWriter
from binshift.spark.reading.sources import METADATA_FORMAT, STATE_FORMAT
from conformance.cluster import sessions

SUITES = (
    "streaming.test_streaming",
    "streaming.test_streaming_foreach",
    "streaming.test_streaming_foreach_batch",
    "streaming.test_streaming_listener",
    "pandas.test_pandas_grouped_map_with_state",
    "pandas.streaming.test_transform_with_state",
    "pandas.streaming.test_transform_with_state_state_variable",
    "pandas.streaming.test_pandas_transform_with_state",
    "pandas.streaming.test_pandas_transform_with_state_state_variable",
)
"""Within ``pyspark.sql.tests``."""

SAME, KNOWN, DIFFERENT, REFUSED, UNTESTED = "same", "known", "different", "refused", "fails on Spark"

ORDER = "takes the first row of a batch; the rows of a batch have no order, and here they are in that of their bins"
KNOWN_DIFFERENCES = {
    "test_schema_evolution_scenarios": ORDER,
    "test_schema_evolution_fails": ORDER,
    "test_transform_with_value_state_metadata": "counts a variable that the processor has deleted; Spark still lists it",
}
"""Tests that fail for a reason that is known and stays; see docs/contributing/tests.md."""

TRACE_LINES = 3
STATE_SOURCES = {"statestore": STATE_FORMAT, "state-metadata": METADATA_FORMAT}
"""Spark's sources of the state in its own checkpoints, and those of the state in binshift's."""


@dataclass
class Started:
    """The stateful queries of the running test.

    Attributes:
        count: how many there are.
        refused: why binshift refused one; empty if it refused none.
    """

    count: int = 0
    refused: str = ""

    def clear(self) -> None:
        """Forget them."""
        self.count, self.refused = 0, ""

    def watch(self) -> None:
        """Record them from now on."""
        start = StatefulStreamWriter._start

        def recorded(writer: StatefulStreamWriter) -> Any:
            self.count += 1
            try:
                return start(writer)
            except Unsupported as refused:
                self.refused = str(refused)
                raise

        StatefulStreamWriter._start = recorded  # type: ignore[method-assign,assignment]


@dataclass
class Verdict:
    """How one test ended.

    Attributes:
        test: its name.
        state: one of the constants above.
        trace: why it failed, or was refused.
    """

    test: str
    state: str
    trace: Sequence[str] = ()

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in [f"{self.state:9} {self.test}", *(f"    {each}" for each in self.trace)])


@dataclass
class Comparison:
    """Runs tests on both engines.

    Attributes:
        session: in which binshift is installed.
        started: the queries of the running test.
    """

    session: SparkSession
    started: Started = field(default_factory=Started)

    def verdict(self, test: unittest.TestCase) -> Verdict | None:
        """The verdict on a test; None if it starts no query with state."""
        self.started.clear()
        trace = _failure(test)
        if self.started.refused:
            return Verdict(test.id(), REFUSED, [self.started.refused])
        if not self.started.count:
            return None
        self.session.conf.set(ENABLED_CONF, "false")
        try:
            on_spark = _failure(type(test)(test._testMethodName))
        finally:
            self.session.conf.set(ENABLED_CONF, "true")
        if on_spark:
            return Verdict(test.id(), UNTESTED, on_spark.splitlines()[-TRACE_LINES:])
        if trace and test._testMethodName in KNOWN_DIFFERENCES:
            return Verdict(test.id(), KNOWN, [KNOWN_DIFFERENCES[test._testMethodName]])
        return Verdict(test.id(), DIFFERENT if trace else SAME, trace.splitlines()[-TRACE_LINES:])


def _failure(test: unittest.TestCase) -> str:
    """Run a test; returns its traces, empty if it passed."""
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    return "".join(trace for _, trace in [*result.failures, *result.errors]).strip()


def tests(named: Sequence[str]) -> Iterator[unittest.TestCase]:
    """The tests whose names, with those of their suites, contain one of these texts; all, if there are none."""
    for suite in SUITES:
        module = importlib.import_module(f"pyspark.sql.tests.{suite}")
        for test in _flat(unittest.defaultTestLoader.loadTestsFromModule(module)):
            if not named or any(text in test.id() for text in named):
                yield test


def _flat(suite: Iterable[unittest.TestCase | unittest.TestSuite]) -> Iterator[unittest.TestCase]:
    for each in suite:
        if isinstance(each, unittest.TestCase):
            yield each
        else:
            yield from _flat(each)


def use(session: SparkSession, folder: Path) -> None:
    """Let the tests run in the application of ``session``, which outlives them, with their conf, and their files in a folder."""
    base: Any = ReusedSQLTestCase

    before: dict[str, str | None] = {}

    def begin(case: Any) -> None:
        case.sc, case.spark = session.sparkContext, session
        case.tempdir = SimpleNamespace(name=str(folder / case.__name__))
        wanted = {name: value for name, value in case.conf().getAll() if session.conf.isModifiable(name)}
        before.update({name: session.conf.get(name, None) for name in wanted})
        for name, value in wanted.items():
            session.conf.set(name, value)

    def end(_: Any) -> None:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
        before.clear()

    base.setUpClass, base.tearDownClass = classmethod(begin), classmethod(end)


def read_own_state(session: SparkSession) -> None:
    """Let tests that read the state of their queries read it from binshift's log, unless Spark runs them."""
    chosen = DataFrameReader.format

    def format(reader: DataFrameReader, source: str) -> DataFrameReader:
        ours = session.conf.get(ENABLED_CONF) == "true"
        return chosen(reader, STATE_SOURCES.get(source, source) if ours else source)

    DataFrameReader.format = format  # type: ignore[method-assign,assignment]


def unpack(folder: Path) -> None:
    """Make the tests importable: they are in the archive for executors, and not in the installed package."""
    archive = Path(pyspark.__file__).parent / "python" / "lib" / "pyspark.zip"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder, [each for each in packed.namelist() if "/tests/" in each])
    for package in (pyspark, importlib.import_module("pyspark.sql")):
        package.__path__.append(str(Path(folder, *package.__name__.split("."))))


def main(named: Sequence[str]) -> int:
    """Run the suites; returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="pyspark-tests-", ignore_cleanup_errors=True) as name:
        unpack(Path(name))
        with sessions(Path(name) / "cluster", cluster=True) as made:
            session = made.binshift()
            use(session, Path(name))
            read_own_state(session)
            comparison = Comparison(session)
            comparison.started.watch()
            count: Counter[str] = Counter()
            for test in tests(named):
                verdict = comparison.verdict(test)
                if verdict is not None:
                    count[verdict.state] += 1
                    _write(str(verdict))
    _write(f"\n{count.total()} of PySpark's tests start queries with state: {_summary(count)}\n")
    return int(count[DIFFERENT] > 0)


def _summary(count: Counter[str]) -> str:
    """The number of tests in each state."""
    return ", ".join(f"{count[state]} {state}" for state in (SAME, KNOWN, DIFFERENT, REFUSED, UNTESTED))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
