"""Executor output in the log of their container: every line once, complete and in order, whatever Spark does with its files."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from binshift.hosting import log_tail
from binshift.hosting.log_tail import EXECUTORS_MAX, LINE_BYTES_MAX, LogFollower, Tail


class Executors(RuleBasedStateMachine):
    """Executors that write, end and are cleaned up, files that are rolled, and a reader that reads now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.work = Path(self.folder.name) / "work"
        self.running: set[int] = set()
        self.started = self.lines = self.rolled = 0
        self.young: set[int] = set()
        self.written: list[bytes] = []
        self.received: list[bytes] = []

    @initialize(before=st.booleans())
    def begin(self, before: bool) -> None:
        """Earlier content of the folder is not copied."""
        if before:
            old = self.work / "app-0" / "0"
            old.mkdir(parents=True)
            (old / "stderr").write_bytes(b"of the container before\n")
        self.followed = LogFollower(str(self.work))

    def path(self, executor: int) -> Path:
        """The output file of an executor."""
        return self.work / f"app-{executor % 2}" / str(executor + 1) / "stderr"

    @rule()
    def start(self) -> None:
        """Start another executor; an earlier one has ended, and its files stay."""
        if self.started - EXECUTORS_MAX in self.running:
            self.read()
            self.running.discard(self.started - EXECUTORS_MAX)
        self.path(self.started).parent.mkdir(parents=True, exist_ok=True)
        self.path(self.started).touch()
        self.running.add(self.started)
        self.young.add(self.started)
        self.started += 1

    @rule(which=st.integers(0, 9), pieces=st.integers(1, 3), rolled=st.booleans())
    def write(self, which: int, pieces: int, rolled: bool) -> None:
        """A line, in several pieces, with reads between them, or in several files."""
        if not self.running:
            return
        executor = sorted(self.running)[which % len(self.running)]
        line = b"%d: line %d\n" % (executor, self.lines)
        self.lines += 1
        for piece in range(pieces):
            with self.path(executor).open("ab") as out:
                out.write(line[piece * len(line) // pieces : (piece + 1) * len(line) // pieces])
            if piece < pieces - 1:
                self.read()
                if rolled:
                    self.rename(executor)
        self.written.append(line)

    @rule(which=st.integers(0, 9))
    def roll(self, which: int) -> None:
        """Spark renames a file and begins a new one; a file that was not read yet is too young."""
        fresh = sorted(set(self.running) - self.young)
        if fresh:
            self.rename(fresh[which % len(fresh)])

    def rename(self, executor: int) -> None:
        """Rename and create, as Spark does."""
        self.path(executor).rename(self.path(executor).with_name(f"stderr--{self.rolled}"))
        self.path(executor).touch()
        self.rolled += 1
        self.young.add(executor)

    @rule(which=st.integers(0, 9))
    def clean(self, which: int) -> None:
        """The files of an ended executor are deleted, long after they were read."""
        if self.running:
            executor = sorted(self.running)[which % len(self.running)]
            self.read()
            self.running.discard(executor)
            self.path(executor).unlink()
            self.young.discard(executor)

    @rule()
    def read(self) -> None:
        """Read all new output."""
        self.received += self.followed.read().splitlines(keepends=True)
        self.young.clear()

    @invariant()
    def nothing_comes_out_of_order(self) -> None:
        """The output of one executor is copied in order, and no line twice."""
        for executor in range(self.started):
            mark = b"%d: " % executor
            written = [line for line in self.written if line.startswith(mark)]
            received = [line for line in self.received if line.startswith(mark)]
            assert received == written[: len(received)]

    def teardown(self) -> None:
        """At the end everything was copied."""
        if hasattr(self, "followed"):
            self.read()
            self.followed.close()
            assert sorted(self.received) == sorted(self.written)
        self.folder.cleanup()


TestExecutors = Executors.TestCase


def test_executors_that_come_and_go_leave_no_handles(tmp_path: Path) -> None:
    """Spark keeps the files of all executors of a running application; the output of one that keeps crashing is copied to the end."""
    watcher, before = LogFollower(str(tmp_path)), len(os.listdir("/proc/self/fd"))
    received = b""
    for executor in range(30):
        path = tmp_path / "app-1" / str(executor) / "stderr"
        path.parent.mkdir(parents=True)
        path.write_text(f"{executor}\n")
        received += watcher.read()
    assert received.split() == [b"%d" % executor for executor in range(30)]
    assert len(os.listdir("/proc/self/fd")) - before == EXECUTORS_MAX
    watcher.close()


def test_an_endless_line_comes_in_pieces(tmp_path: Path) -> None:
    """A program that never ends its line does not fill this process's memory."""
    path = tmp_path / "stdout"
    path.write_bytes(b"x" * (LINE_BYTES_MAX + 1))
    tail = Tail(str(path))
    assert tail.lines() == b"x" * (LINE_BYTES_MAX + 1) + b"\n"
    path.write_bytes(path.read_bytes() + b"y")
    assert tail.lines() == b""
    assert tail.close() == b"y\n"


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Everything written until then is copied, and the process ends by itself."""
    starter = "import subprocess, sys; subprocess.Popen([sys.executable, '-I', '-S', *sys.argv[1:]]); sys.stdin.read()"
    command = [sys.executable, "-c", starter, log_tail.__file__, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        received, tries, executor = False, 0, tmp_path
        while not received:
            # Content from before its first read is not copied.
            executor = tmp_path / "app-1" / str(tries)
            executor.mkdir(parents=True)
            (executor / "stderr").write_text("hello\n")
            received, tries = bool(select.select([process.stdout], [], [], 0.2)[0]), tries + 1
        with (executor / "stderr").open("a") as out:
            out.write("last line\n")
        process.stdin.close()
        # Its output ends when all processes that hold it have ended.
        assert process.stdout.read().endswith(b"last line\n")
