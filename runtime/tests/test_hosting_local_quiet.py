"""The terminal output of `binshift run`: the program's own output, warnings, and a line when something changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from binshift.control.models import Dataflow, EpochUnderWay, Migration, State
from binshift.hosting.local.quiet import TRACEBACK_LINES_MAX, Sieve, configured
from binshift.hosting.local.terminal import Changes, ExecutorOutput

WARNING = b"26/11/23 08:18:12 WARN BlockManager: slow disk"
INFO = b"26/11/23 08:18:12 INFO Executor: Running task 0.0"
BROKEN = [
    b"Traceback (most recent call last):",
    b'  File "daemon.py", line 9, in manager',
    b"BrokenPipeError: [Errno 32]",
]
MEANT = [b"Traceback (most recent call last):", b'  File "app.py", line 9, in f', b"", b"ValueError: a bad row"]
STACK = [b"java.io.EOFException", b"\tat java.net.Socket.read(Socket.java:1)", b"Caused by: x", b"\t... 12 more"]


def sifted(*lines: bytes, ending: bool = False) -> list[bytes]:
    """The lines that a sieve passes, given one by one."""
    sieve = Sieve()
    sieve.ending = ending
    return [each for line in lines for each in sieve.passed([line])]


def test_what_users_print_and_warnings_pass() -> None:
    """Lines at INFO, start-up lines and empty lines do not pass; a warning passes with its stack."""
    start = (
        b'Spark Executor Command: "java"',
        b"=" * 40,
        b"",
        b"WARNING: Using incubator modules: jdk.incubator",
    )
    assert sifted(*start, INFO, *STACK, b"a row without a name", INFO, WARNING, *STACK, b"more") == [
        b"a row without a name",
        WARNING,
        *STACK,
        b"more",
    ]


def test_a_cut_connection_is_no_traceback_at_the_end() -> None:
    """The end of a Python worker leaves none; any other error is complete, and so is that of a user's own connection."""
    assert sifted(*BROKEN, b"hello", *MEANT, ending=True) == [b"hello", *MEANT]
    assert sifted(*BROKEN, b"hello", *MEANT) == [*BROKEN, b"hello", *MEANT]


@pytest.mark.parametrize(
    "printed",
    [b"org.example.user prints this", b"java.util.List is what it is", b"========== a report ==========", b"=" * 40],
)
def test_prints_similar_to_java_pass(printed: bytes) -> None:
    """This holds after a line at INFO, too."""
    assert sifted(INFO, *STACK, printed, b"more") == [printed, b"more"]


def test_a_traceback_without_an_end_is_told() -> None:
    """It is held back until the run ends, or until it exceeds the length of a traceback."""
    sieve = Sieve()
    assert list(sieve.passed(MEANT[:2])) == []
    assert list(sieve.rest()) == MEANT[:2]
    assert list(sieve.rest()) == []
    endless = [MEANT[0], *[b"  and again"] * 3 * TRACEBACK_LINES_MAX]
    assert list(sieve.passed(endless)) == endless


def test_the_end_of_executors_is_not_told() -> None:
    """Spark's messages about it are omitted, with their stacks; the last output of a function is not."""
    assert sifted(WARNING, *STACK, b"the last row", *BROKEN, WARNING, ending=True) == [b"the last row"]


def test_spark_logs_to_files(tmp_path: Path) -> None:
    """Driver and executors get separate configurations; existing Java options are kept, and blanks in paths are safe."""
    cluster = tmp_path / "a cluster"
    cluster.mkdir()
    conf = configured(cluster, {"spark.driver.defaultJavaOptions": "-Xshare:auto", "spark.x": "y"})
    assert conf["spark.x"] == "y"
    for each in ("driver", "executor"):
        option, *rest = conf[f"spark.{each}.defaultJavaOptions"].split()
        assert rest == (["-Xshare:auto"] if each == "driver" else [])
        assert option == f"-Dlog4j2.configurationFile={cluster.as_uri()}/log4j2-{each}.properties"
    assert f"fileName = {cluster}/driver.log" in (cluster / "log4j2-driver.properties").read_text()
    assert "fileName = spark.log" in (cluster / "log4j2-executor.properties").read_text()


def test_warnings_of_the_driver_are_told(tmp_path: Path) -> None:
    """They are read from its file, without those of an earlier run."""
    (tmp_path / "driver.log").write_bytes(b"26/11/23 08:18:12 WARN Old: of the run before\n")
    reported: list[tuple[str, str]] = []
    output = ExecutorOutput(tmp_path, lambda name, line: reported.append((name, line)))
    with (tmp_path / "driver.log").open("ab") as out:
        out.write(INFO + b"\n" + WARNING + b"\n")
    output.forward()
    output.ending = True
    with (tmp_path / "driver.log").open("ab") as out:
        out.write(WARNING + b"\n")
    output.forward()
    assert reported == [("driver", WARNING.decode())]


def test_the_last_call_forwards_everything(tmp_path: Path) -> None:
    """This includes a traceback whose end is missing."""
    reported: list[tuple[str, str]] = []
    output = ExecutorOutput(tmp_path, lambda name, line: reported.append((name, line)))
    (tmp_path / "driver.log").write_bytes(b"\n".join(MEANT[:2]) + b"\n")
    output.forward()
    assert reported == []
    output.forward(last=True)
    assert [line.encode() for _, line in reported] == MEANT[:2]


BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def migration(number: int, phase: Any, bins: int | None = None, reason: str = "") -> Migration:
    """A migration that takes two seconds."""
    return Migration(
        id=number,
        phase=phase,
        reason=reason,
        generation=1,
        workers=[0, 1],
        strategy="Fluid",
        batch_size=1,
        pre_copy=True,
        bins_total=bins,
        bins_moved=bins if phase == "settled" else 0,
        started_at=BEGAN,
        ended_at=BEGAN + timedelta(seconds=2) if phase in ("settled", "cancelled") else None,
    )


def seen(**facts: Any) -> Dataflow:
    """A running dataflow of two workers."""
    usual: dict[str, Any] = {"state": State.RUNNING, "epoch": 5, "workers": [0, 1], "registered": [0, 1]}
    return Dataflow(**usual | facts)


def changes(*states: Dataflow) -> list[tuple[str, dict[str, object]]]:
    """The reported changes, state by state; each state is seen twice."""
    compared = Changes()
    return [(event, dict(facts)) for state in states for _ in range(2) for event, facts in compared.of(state)]


def test_workers_and_migrations_are_told_once() -> None:
    """These are registered and missing workers, the workers with bins, and the start and end of migrations."""
    reported = changes(
        seen(),
        seen(registered=[0, 1, 2]),
        seen(registered=[0, 1, 2], migration=migration(1, "planned")),
        seen(registered=[0, 1, 2], migration=migration(1, "copying", 8)),
        seen(registered=[0, 2], workers=[0, 2], migration=migration(1, "settled", 8)),
        seen(registered=[0, 2], workers=[0, 2], migration=migration(2, "cancelled", None, "superseded by migration 3")),
    )
    assert reported == [
        ("bins", {"workers": [0, 1], "epoch": 5}),
        ("workers registered", {"workers": [2]}),
        ("migration begun", {"id": 1, "strategy": "Fluid", "bins": 8}),
        ("workers away", {"workers": [1]}),
        ("bins", {"workers": [0, 2], "epoch": 5}),
        ("migration settled", {"id": 1, "bins": 8, "seconds": 2.0, "reason": ""}),
        ("migration cancelled", {"id": 2, "bins": 0, "seconds": 2.0, "reason": "superseded by migration 3"}),
    ]


def test_an_empty_migration_is_reported() -> None:
    """It has no start to report, and ends with the reason."""
    idle = migration(1, "settled", 0, "nothing had to move")
    assert [event for event, _ in changes(seen(migration=idle))] == ["bins", "migration settled"]


@pytest.mark.parametrize("runs", [1, 2, 9])
def test_an_epoch_in_trouble_is_told_once_and_so_is_its_end(runs: int) -> None:
    """It is reported from the second failed run on, with its reason."""
    running = EpochUnderWay(epoch=6, runs=runs, part="job", seconds=1.0, trouble="the disk is full")
    reported = [event for event, _ in changes(seen(under_way=running), seen(epoch=6))]
    trouble = ["epoch in trouble", "epoch recorded after trouble"] if runs > 2 else []
    assert reported == ["bins", *trouble]
