"""`binshift snapshot`: it requests one, shows how far it is, and ends when it is complete, or with the reason why it is not."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from control_fakes import a_snapshot

from binshift.control.models import State
from binshift.control.savepoints import Snapshot
from binshift.errors import RunFailed, SnapshotRefused
from binshift.hosting.local.snapshot import await_complete, default_name
from binshift.savepoints.states import SavepointState

PLACE = "/backup/monday"


def snapshot(state: str, reason: str = "", *, ended: bool = False) -> Snapshot:
    changes = {"state": SavepointState(state), "reason": reason}
    finished = datetime(2026, 1, 1, tzinfo=UTC) if ended else None
    return a_snapshot("monday", PLACE).model_copy(update={**changes, "finished_at": finished})


class Control:
    """A control API with these answers, in their order."""

    def __init__(self, *answers: Snapshot, state: State = State.RUNNING) -> None:
        self.answers, self.state = list(answers), state
        self.calls: list[str] = []
        self.lines: list[str] = []

    def put_snapshot(self, name: str, location: str) -> Snapshot:
        self.calls.append(f"put {name} {location}")
        return self.answers.pop(0)

    def snapshot(self, name: str) -> Snapshot:
        return self.answers.pop(0)

    def remove_snapshot(self, name: str, location: str) -> None:
        self.calls.append(f"remove {name} {location}")

    def dataflow(self) -> Any:
        return SimpleNamespace(state=self.state)

    def wait(self) -> Snapshot:
        """The result of the command."""
        times = iter(range(100))
        control: Any = self
        return await_complete(control, "monday", PLACE, self.lines.append, lambda: next(times), lambda seconds: None)


def test_it_waits_until_it_is_complete() -> None:
    """Lines on the way show state, epoch, files and bytes. It is requested again as long as it is pending, as it can be one too many."""
    control = Control(*[snapshot("Pending")] * 2, *[snapshot("Copying")] * 4, snapshot("Complete"))
    assert control.wait().state is SavepointState.COMPLETE
    assert control.calls == [f"put monday {PLACE}"] * 3
    assert control.lines[-1] == f"snapshot monday at {PLACE}: copying, epoch 7, 3/10 files, 0.0/0.0 MB"
    assert 1 < len(control.lines) < 5


def test_one_that_is_complete_is_not_polled() -> None:
    """The same command again returns at once."""
    assert Control(snapshot("Complete")).wait().state is SavepointState.COMPLETE


def test_a_failure_is_an_error() -> None:
    """The error has the reason."""
    with pytest.raises(SnapshotRefused, match=r"it has 'notes\.txt'"):
        Control(snapshot("Copying"), snapshot("Failed", "it has 'notes.txt'", ended=True)).wait()


def test_one_that_failed_before_is_begun_again() -> None:
    """What it has left is removed first."""
    control = Control(snapshot("Failed", "full", ended=True), snapshot("Copying"), snapshot("Complete"))
    assert control.wait().state is SavepointState.COMPLETE
    assert control.calls == [f"put monday {PLACE}", f"remove monday {PLACE}", f"put monday {PLACE}"]


def test_the_end_of_the_query_is_an_error() -> None:
    """A pending copy continues only with the next run."""
    with pytest.raises(RunFailed, match="has ended"):
        Control(snapshot("Copying"), snapshot("Pending", "the query has ended"), state=State.STOPPED).wait()


@pytest.mark.parametrize(
    ("place", "name"),
    [("/backup/Monday 1", "monday-1"), ("s3a://b", "b"), ("/", "snapshot"), ("/a/--", "snapshot"), ("/a/.x.", "x")],
)
def test_the_name_comes_from_the_location(place: str, name: str) -> None:
    """It is always a name that the API accepts."""
    assert default_name(place) == name
