"""The meaning of a program's end, and when it is restarted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.control.models import REASON_CHARACTERS_MAX, State
from binshift.errors import Fenced, LogOwned, UserFunctionFailed
from binshift.hosting.pod import lifecycle
from binshift.hosting.pod.connection import LOST_SECONDS, Connection, knows
from binshift.hosting.pod.lifecycle import (
    REASON_CHARACTERS,
    Again,
    Outcome,
    Rest,
    after,
    again_reason,
    of_process,
    of_program,
    stopped,
    tail,
)

ENDS = (State.STOPPED, State.FINISHED, State.FAILED, State.FENCED)


@given(st.sampled_from(ENDS), st.integers(0, 10**9), st.floats(0, 1e9))
def test_only_a_failure_is_tried_again(state: State, failures: int, healthy: float) -> None:
    """Every other end is final; the wait is between a second and a minute, and never shorter after more failures."""
    step = after(Outcome(state, "", healthy), failures)
    if state is not State.FAILED:
        assert step == Rest()
        return
    assert isinstance(step, Again)
    assert lifecycle.FIRST_SECONDS <= step.after_seconds <= lifecycle.LAST_SECONDS
    further = after(Outcome(state, "", healthy), failures + 1)
    assert isinstance(further, Again)
    assert further.after_seconds >= step.after_seconds


def test_the_wait_doubles_up_to_a_minute() -> None:
    """1, 2, 4 ... 60 s; after five healthy minutes it starts again at 1 s."""
    waits, failures = [], 0
    for _ in range(8):
        step = after(Outcome(State.FAILED), failures)
        assert isinstance(step, Again)
        failures = step.failures
        waits.append(step.after_seconds)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert after(Outcome(State.FAILED, "", lifecycle.HEALTHY_SECONDS - 1), failures) == Again(60, 9)
    assert after(Outcome(State.FAILED, "", lifecycle.HEALTHY_SECONDS), failures) == Again(1, 1)


RUNNING, STOPPED = (State.RUNNING, ""), (State.STOPPED, "")


@pytest.mark.parametrize(
    ("query", "requested", "error", "text", "state", "message"),
    [
        (None, False, None, "", State.FINISHED, "without having started"),
        ((State.FINISHED, ""), False, None, "", State.FINISHED, ""),
        (STOPPED, True, None, "", State.STOPPED, ""),
        (STOPPED, False, None, "", State.FINISHED, "stopped its query"),
        (RUNNING, False, None, "", State.FAILED, "awaitTermination"),
        ((State.FAILED, "no space"), False, None, "", State.FAILED, "no space"),
        (RUNNING, False, ValueError("x"), "Traceback\nValueError: x\n", State.FAILED, "ValueError: x\nTraceback"),
        (None, False, None, "the program ended with exit status 3", State.FAILED, "exit status 3"),
        (None, False, LogOwned("another"), "LogOwned: another", State.FAILED, "another"),
        ((State.FENCED, "a newer driver"), False, None, "", State.FENCED, "a newer driver"),
        (STOPPED, True, ValueError("after the stop"), "ValueError: after the stop", State.FAILED, "after the stop"),
    ],
)
def test_an_end_is_called_by_its_name(
    query: tuple[State, str] | None, requested: bool, error: Exception | None, text: str, state: State, message: str
) -> None:
    """A program's end is the last state of its query, unless it raised; the reason has the instructions for users."""
    outcome = of_program(query, requested, error, text)
    assert outcome.state is state
    assert message in outcome.reason


def test_the_cause_comes_first() -> None:
    """The error is at the beginning, however long its traceback and Java's message are."""
    frames = "".join(f"\tat org.apache.spark.SparkContext.f{n}(SparkContext.scala:{n})\n" for n in range(50))
    raised = f"An error occurred while calling None.\n: IllegalArgumentException: Executor memory 400m is too small\n{frames}"
    error = RuntimeError(raised)
    text = "Traceback:\n" + "  File x.py, line 1\n" * 200 + f"RuntimeError: {raised}"
    reason = of_program(None, False, error, text).reason
    assert reason.startswith(
        "RuntimeError: An error occurred while calling None.\n: IllegalArgumentException: Executor"
    )
    assert reason.count("IllegalArgumentException") == 1
    assert reason.endswith("File x.py, line 1")
    assert len(reason) <= REASON_CHARACTERS
    long = of_program(None, False, ValueError("y" * 10_000), f"Traceback\nValueError: {'y' * 10_000}").reason
    assert long.startswith("ValueError: yyy")
    assert len(long) <= REASON_CHARACTERS


def test_an_error_in_an_epoch_keeps_its_end() -> None:
    """The error of a user's function is in the last line of the message, after frames of any length, and stays."""
    frames = "".join(f'  File "/usr/lib/python3/{"x" * 80}.py", line {n}, in f\n    return f(x)\n' for n in range(12))
    error = UserFunctionFailed(f"the program failed inside an epoch:\n{frames}KeyError: 'price'")
    reason = of_program(None, False, error, f"Traceback:\n  File x.py, line 1\n{error}").reason
    assert reason.startswith("binshift.errors.UserFunctionFailed: the program failed inside an epoch:")
    assert "\nKeyError: 'price'\n" in reason
    assert len(reason) <= REASON_CHARACTERS


def test_no_wall_of_java_hides_the_cause() -> None:
    """Java's messages are kept, the frames of its stack are not."""
    frames = "".join(f"\tat org.apache.hadoop.fs.s3a.S3AUtils.translate{n}(S3AUtils.java:285)\n" for n in range(200))
    text = f"Py4JJavaError: o131.globStatus.\n: UnknownStoreException: no bucket\n{frames}\t... 9 more\nCaused by: NoSuchBucket\n{frames}"
    outcome = of_program(None, False, None, text)
    assert outcome.reason == (
        "Py4JJavaError: o131.globStatus.\n: UnknownStoreException: no bucket\nCaused by: NoSuchBucket"
    )


def test_who_is_fenced_rests_however_it_was_wrapped() -> None:
    """An error caused by a newer driver's is fenced, at any depth, and in circles too."""
    fenced, outer = Fenced("the driver of term 4 has taken over"), RuntimeError("query failed")
    outer.__cause__ = ValueError("in between")
    outer.__cause__.__context__ = fenced
    fenced.__context__ = outer
    assert of_program(RUNNING, False, outer, "Traceback") == Outcome(State.FENCED, str(fenced))


@pytest.mark.parametrize("state", ENDS)
def test_a_stopped_program_is_not_retried(state: State) -> None:
    """It is Stopped, whatever its end, with the reason if it failed; one that had ended before keeps its state."""
    outcome = stopped(Outcome(state, "why"))
    assert after(outcome, 0) == Rest()
    assert outcome.state is (State.STOPPED if state in {State.FAILED, State.STOPPED} else state)
    assert bool(outcome.reason) is (state is not State.STOPPED)


def test_a_process_without_a_report_is_judged_by_its_status() -> None:
    """A signal is named, with its usual meaning."""
    assert "no memory left" in of_process(137).reason
    assert "signal 11" in of_process(139).reason
    assert "status 1 " in of_process(1).reason


@given(st.text(), st.integers(10, 400))
def test_a_tail_fits(text: str, characters: int) -> None:
    """The end of a long traceback is kept, and fits in a response with other text."""
    end = tail(text, characters)
    assert len(end) <= characters
    assert text.strip().endswith(end.removeprefix("... ").strip())
    assert len(again_reason(Outcome(State.FAILED, tail(text * 100)), 10**6)) <= REASON_CHARACTERS_MAX


def test_a_master_that_forgets_is_noticed() -> None:
    """A master that does not know the program for a minute has lost it; a shorter restart has not."""
    connection = Connection()
    assert not any(connection.seen(at % 50 == 0, float(at)) for at in range(0, 1000, 5))
    assert not connection.seen(True, 1999.0)
    assert not connection.seen(False, 2000.0)
    assert connection.seen(False, 2000.0 + LOST_SECONDS)


@pytest.mark.parametrize(
    "status",
    [
        *(None, 3, [], {}, {"activeapps": None}, {"activeapps": [{}]}, {"activeapps": [{"id": "app-1"}]}),
        *({"activeapps": [{"id": "app-1", "state": "UNKNOWN"}]}, {"activeapps": [{"id": "app-2", "state": "RUNNING"}]}),
    ],
)
def test_nonsense_is_no_connection(status: object) -> None:
    """Only a master that lists the program as running knows it."""
    assert not knows(status, "app-1")
