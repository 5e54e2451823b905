"""Executors' words in the log of their container: every line once, whole and in order, whatever Spark does with its files."""

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
    """Executors that write, end and are cleaned up, files that are rolled, and somebody who looks now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.work = Path(self.folder.name) / "work"
        self.running: set[int] = set()
        self.started = self.lines = self.rolled = 0
        self.young: set[int] = set()
        self.said: list[bytes] = []
        self.heard: list[bytes] = []

    @initialize(before=st.booleans())
    def begin(self, before: bool) -> None:
        """What is there before is not told."""
        if before:
            old = self.work / "app-0" / "0"
            old.mkdir(parents=True)
            (old / "stderr").write_bytes(b"of the container before\n")
        self.followed = LogFollower(str(self.work))

    def path(self, executor: int) -> Path:
        """Where an executor writes."""
        return self.work / f"app-{executor % 2}" / str(executor + 1) / "stderr"

    @rule()
    def start(self) -> None:
        """Another executor; one of those before it has ended, and its files stay."""
        if self.started - EXECUTORS_MAX in self.running:
            self.look()
            self.running.discard(self.started - EXECUTORS_MAX)
        self.path(self.started).parent.mkdir(parents=True, exist_ok=True)
        self.path(self.started).touch()
        self.running.add(self.started)
        self.young.add(self.started)
        self.started += 1

    @rule(which=st.integers(0, 9), pieces=st.integers(1, 3), rolled=st.booleans())
    def write(self, which: int, pieces: int, rolled: bool) -> None:
        """A line, in as many pieces as it likes, with looks between them, or in several files."""
        if not self.running:
            return
        executor = sorted(self.running)[which % len(self.running)]
        line = b"%d: line %d\n" % (executor, self.lines)
        self.lines += 1
        for piece in range(pieces):
            with self.path(executor).open("ab") as out:
                out.write(line[piece * len(line) // pieces : (piece + 1) * len(line) // pieces])
            if piece < pieces - 1:
                self.look()
                if rolled:
                    self.rename(executor)
        self.said.append(line)

    @rule(which=st.integers(0, 9))
    def roll(self, which: int) -> None:
        """Spark gives a file another name and begins a new one; a file that nobody has looked at yet is too young."""
        fresh = sorted(set(self.running) - self.young)
        if fresh:
            self.rename(fresh[which % len(fresh)])

    def rename(self, executor: int) -> None:
        """As Spark does it."""
        self.path(executor).rename(self.path(executor).with_name(f"stderr--{self.rolled}"))
        self.path(executor).touch()
        self.rolled += 1
        self.young.add(executor)

    @rule(which=st.integers(0, 9))
    def clean(self, which: int) -> None:
        """What an ended executor has left is deleted, long after it was looked at."""
        if self.running:
            executor = sorted(self.running)[which % len(self.running)]
            self.look()
            self.running.discard(executor)
            self.path(executor).unlink()
            self.young.discard(executor)

    @rule()
    def look(self) -> None:
        """Take what there is."""
        self.heard += self.followed.look().splitlines(keepends=True)
        self.young.clear()

    @invariant()
    def nothing_comes_out_of_order(self) -> None:
        """What one executor has said is heard in its order, and no line twice."""
        for executor in range(self.started):
            mark = b"%d: " % executor
            said = [line for line in self.said if line.startswith(mark)]
            heard = [line for line in self.heard if line.startswith(mark)]
            assert heard == said[: len(heard)]

    def teardown(self) -> None:
        """In the end all was heard."""
        if hasattr(self, "followed"):
            self.look()
            self.followed.close()
            assert sorted(self.heard) == sorted(self.said)
        self.folder.cleanup()


TestExecutors = Executors.TestCase


def test_executors_that_come_and_go_leave_no_handles(tmp_path: Path) -> None:
    """Spark keeps the files of all executors of an application that runs; one that crashes all day is told of to its end."""
    watcher, before = LogFollower(str(tmp_path)), len(os.listdir("/proc/self/fd"))
    heard = b""
    for executor in range(30):
        path = tmp_path / "app-1" / str(executor) / "stderr"
        path.parent.mkdir(parents=True)
        path.write_text(f"{executor}\n")
        heard += watcher.look()
    assert heard.split() == [b"%d" % executor for executor in range(30)]
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
    """What was written until then is told; nobody has to end it."""
    starter = "import subprocess, sys; subprocess.Popen([sys.executable, '-I', '-S', *sys.argv[1:]]); sys.stdin.read()"
    command = [sys.executable, "-c", starter, log_tail.__file__, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heard, tries = False, 0
        while not heard:
            # What is there before it looks for the first time is not told.
            executor = tmp_path / "app-1" / str(tries)
            executor.mkdir(parents=True)
            (executor / "stderr").write_text("hello\n")
            heard, tries = bool(select.select([process.stdout], [], [], 0.2)[0]), tries + 1
        with (executor / "stderr").open("a") as out:
            out.write("last words\n")
        process.stdin.close()
        # The end of its output is the end of all who have it.
        assert process.stdout.read().endswith(b"last words\n")
