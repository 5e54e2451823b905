"""When an epoch counts as stuck, and what is reported; a stream without input never does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_decide import FLOW, LIMITS, NOW, SETTLED, condition, observed, pod

from binshift_operator.decide import decide
from binshift_operator.driver_answers import parse_runtime
from binshift_operator.model.observed_runtime import RunningEpoch, RunState
from binshift_operator.model.pods import PodState
from binshift_operator.model.status import ConditionType, Status
from binshift_operator.status.degraded import EPOCH_STAGES, stuck_epoch_message

LONG = LIMITS.epoch_seconds_max * 3


def status_with(runtime: dict[str, Any]) -> Status:
    """The status of a dataflow with this runtime."""
    return decide(FLOW, observed(runtime=runtime), SETTLED, LIMITS).status


@given(since=st.floats(0, 1e7))
def test_a_stream_without_input_does_not_hang(since: float) -> None:
    """However long ago the newest epoch was committed: without a running epoch, nothing is reported, and it is ready."""
    status = status_with({"committed_at": NOW - since})
    assert condition(status, ConditionType.READY).status is True
    assert condition(status, ConditionType.DEGRADED).status is False


@pytest.mark.parametrize("epoch", [-1, 50])
def test_an_epoch_that_hangs(epoch: int) -> None:
    """Beyond the limit, Ready is False and Degraded has the duration, the run, and what to check; the first epoch counts, too."""
    late = {"epoch": epoch, "committed_at": None, "running_epoch": RunningEpoch(epoch + 1, LONG, 3, "record")}
    status = status_with(late)
    ready, degraded = condition(status, ConditionType.READY), condition(status, ConditionType.DEGRADED)
    assert (ready.status, ready.reason) == (False, "EpochHangs")
    assert (degraded.status, degraded.reason) == (True, "EpochHangs")
    assert f"epoch {epoch + 1} has been running for over 15 min, in run 3, and writes its record" in degraded.message
    assert "check the checkpoint's storage" in degraded.message


@pytest.mark.parametrize(
    ("seconds", "runs", "trouble", "tells"),
    [
        (12.0, 4, "the disk is full", True),
        (2.0, 4, "the disk is full", False),
        (12.0, 3, "it is lost", False),
        (12.0, 9, "", False),
    ],
)
def test_an_epoch_that_keeps_failing(seconds: float, runs: int, trouble: str, tells: bool) -> None:
    """After three failed runs and ten seconds, Ready is False and Degraded has the error; a lost executor causes no more than two runs."""
    status = status_with({"committed_at": None, "running_epoch": RunningEpoch(51, seconds, runs, "job", trouble)})
    ready, degraded = condition(status, ConditionType.READY), condition(status, ConditionType.DEGRADED)
    assert (ready.status, degraded.status) == (not tells, tells)
    if tells:
        assert (ready.reason, degraded.reason) == ("EpochHangs", "EpochHangs")
        assert degraded.message == "epoch 51 has failed 3 times and is retried; last error: the disk is full"


@given(
    seconds=st.floats(0, 1e6),
    committed=st.one_of(st.none(), st.floats(0, 1e6)),
    state=st.sampled_from(RunState),
)
def test_the_limit_alone_decides(seconds: float, committed: float | None, state: RunState) -> None:
    """An epoch of a program that runs hangs exactly if it has been under way for longer than the limit."""
    status = status_with(
        {
            "state": state,
            "committed_at": None if committed is None else NOW - committed,
            "running_epoch": RunningEpoch(51, seconds),
        }
    )
    hangs = state is RunState.RUNNING and seconds > LIMITS.epoch_seconds_max
    assert (condition(status, ConditionType.DEGRADED).reason == "EpochHangs") is hangs
    assert (condition(status, ConditionType.READY).reason == "EpochHangs") is hangs


def test_absent_workers_are_reported_first() -> None:
    """Ready names the workers an epoch waits for, as long as there are such."""
    status = status_with({"committed_at": None, "registered": frozenset({0}), "running_epoch": RunningEpoch(51, LONG)})
    assert condition(status, ConditionType.READY).reason == "WorkersAway"


def test_cause_of_a_stuck_epoch_is_reported_first() -> None:
    """A pod that crashes repeatedly takes precedence over the epoch that waits for it."""
    pods = (pod(0, driver=True), pod(0), replace(pod(1), state=PodState.CRASHING, message="KeyError"))
    seen = replace(observed(runtime={"committed_at": None, "running_epoch": RunningEpoch(51, LONG)}), pods=pods)
    assert condition(decide(FLOW, seen, SETTLED, LIMITS).status, ConditionType.DEGRADED).reason == "Crashing"


def test_the_message_changes_once_a_minute() -> None:
    """A status is not written in every reconciliation just because time has passed."""
    messages = {
        condition(
            status_with({"running_epoch": RunningEpoch(51, 600.0 + second, part="job")}), ConditionType.DEGRADED
        ).message
        for second in range(60)
    }
    assert len(messages) == 1
    assert "10 min" in messages.pop()


def test_parts_are_the_runtimes() -> None:
    """There is something to check for every stage of an epoch, and for unknown stages of a newer driver."""
    progress = pytest.importorskip("binshift.engine.epoch_progress")
    assert set(EPOCH_STAGES) == set(progress.EpochStage)
    odd = parse_runtime({"state": "Running", "underWay": {"epoch": 3, "seconds": LONG, "part": "dreaming"}})
    assert "check the sink" in stuck_epoch_message(odd, LIMITS.epoch_seconds_max)


def test_older_driver_reports_nothing() -> None:
    """A driver that does not know the field is not reported as stuck."""
    assert parse_runtime({"state": "Running"}).running_epoch is None
    assert parse_runtime({"state": "Running", "underWay": None}).running_epoch is None
