"""User functions that raise, return nonsense, use all memory, die or hang: the error is short, and no state is lost."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import awaiting
import httpx2
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from counted import ROWS
from hostile import check_log, check_told, writer
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from totals import Kept, Step, Tables, answers, summed, totalling

import binshift
from binshift.control import ControlSettings, Tokens, serve
from binshift.errors import EpochFailed, UserFunctionFailed
from binshift.log.storage.opening import open_storage
from binshift.spark.session.checkpoint import committed

pytestmark = pytest.mark.cluster
# Executors do not have the tests' folder.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

BROKEN = 2
"""The epoch in which the function fails."""
GIB = 1 << 30
TOKEN = "admin-token-0123456789"
awaited = partial(awaiting.awaited, seconds=60.0)


def at_epoch(epoch: int, does: Callable[[], object]) -> Step:
    """The correct function, except for one epoch."""

    def step(keys: pa.RecordBatch, rows: pa.Table, state: pa.Table) -> Tables:
        if pc.max(rows["value"]).as_py() >= epoch * ROWS:
            found = does()
            if found is not None:
                return found  # type: ignore[return-value]
        return summed(keys, rows, state)

    return step


def raises() -> None:
    """Two errors, one caused by the other."""
    try:
        dict[str, int]()["the price list"]
    except KeyError as missing:
        raise ValueError("the answer is not 42") from missing


def reset() -> None:
    """An error whose text resembles that of a lost executor."""
    raise ConnectionResetError(104, "Connection reset by peer")


def nonsense() -> object:
    """Return other columns than declared."""
    table = pa.table({"name": ["a"], "sum": [1]})
    return table, table


def greedy() -> None:
    """Use more memory than the process may."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + GIB // 4, before[1]))
    try:
        bytearray(8 * GIB)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def killed() -> None:
    """Kill the process, as the kernel does when it uses too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def resumed(session: SparkSession, checkpoint: Path) -> None:
    """The fixed program continues from the last epoch, and its rows are as without the failure."""
    assert committed(open_storage(str(checkpoint))) == BROKEN - 1
    check_log(checkpoint)
    kept = Kept()
    query = writer(totalling(session, summed), checkpoint, kept).start()
    query.await_epoch(BROKEN + 1, 120)
    query.stop()
    for epoch, wanted in enumerate(answers(BROKEN + 2)):
        assert epoch < BROKEN or kept.epochs[epoch] == wanted, epoch


def failed(query: Any) -> str:
    """The error that ends the query."""
    with pytest.raises((UserFunctionFailed, EpochFailed)) as caught:
        query.awaitTermination(120)
    assert query.epoch == BROKEN - 1
    assert not query.isActive
    return f"{type(caught.value).__name__}: {caught.value}"


CASES: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "raises": (raises, ("UserFunctionFailed", "ValueError: the answer is not 42", "KeyError", "in raises")),
    "resembles a lost executor": (reset, ("UserFunctionFailed", "ConnectionResetError", "in reset")),
    "nonsense": (nonsense, ("UserFunctionFailed", "['name', 'sum']", "['name', 'total', 'seen']")),
    "greedy": (greedy, ("UserFunctionFailed", "MemoryError", "in greedy")),
    "killed": (killed, ("EpochFailed", "epoch 2 failed 2 times", "Python worker exited unexpectedly")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_function_costs_nothing(case: str, session: SparkSession, tmp_path: Path) -> None:
    """The error shows the user's own lines; state stays at the previous epoch; the fixed program continues from there."""
    does, expected = CASES[case]
    query = writer(totalling(session, at_epoch(BROKEN, does), epoch_attempts_max=2), tmp_path).start()
    check_told(failed(query), *expected)
    resumed(session, tmp_path)


def test_a_function_before_the_state_is_told_too(session: SparkSession, tmp_path: Path) -> None:
    """A Python function of a column, which runs in another task than the state, fails with its own name."""

    @F.udf("long")
    def doubled(value: int) -> int:
        if value >= BROKEN * ROWS:
            raise ZeroDivisionError("no such price")
        return 2 * value

    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    frame = source.select(doubled("value").alias("v")).groupBy((F.col("v") % 7).alias("k")).agg(F.sum("v"))
    query = writer(binshift.writeStream(frame, bins=8, workers=2), tmp_path).start()
    check_told(failed(query), "UserFunctionFailed", "ZeroDivisionError: no such price", "in doubled")
    check_log(tmp_path)


def test_a_function_that_hangs_is_seen_and_can_be_left(session: SparkSession, tmp_path: Path) -> None:
    """The running epoch grows older; aborting the query ends the hanging process; the fixed program continues."""
    here = tmp_path / "hangs"

    def hang() -> None:
        here.write_text(str(os.getpid()))
        time.sleep(3600)

    checkpoint = tmp_path / "checkpoint"
    query = writer(totalling(session, at_epoch(BROKEN, hang)), checkpoint).start()
    with serve(ControlSettings(tokens=Tokens(TOKEN))) as control:
        control.attach(query)

        def under_way() -> Any:
            answer = httpx2.get(
                f"{control.api.url}/v1/dataflow", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
            )
            return answer.raise_for_status().json()["underWay"]

        seen = awaited(under_way, lambda seen: seen is not None and seen["epoch"] == BROKEN and seen["part"] == "job")
        awaited(under_way, lambda later: later["seconds"] > seen["seconds"] + 1 and later["runs"] == 1)
        awaited(here.exists, bool)
        query.abort()
    assert not query.isActive
    awaited(lambda: Path("/proc", here.read_text()).exists(), lambda there: not there)
    resumed(session, checkpoint)


def test_a_module_that_executors_lack_is_named(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a function's module is only on the driver, the query does not start, and a short error names the module."""
    (tmp_path / "only_here.py").write_text("def step(keys, rows, state):\n    return rows, state\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]  # written above

    with pytest.raises(UserFunctionFailed) as caught:
        writer(totalling(session, only_here.step), tmp_path / "checkpoint").start()
    check_told(str(caught.value), "No module named 'only_here'")
