"""The error of a failed query has its own type and Spark's."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PythonException, StreamingQueryException

from binshift.errors import Fenced, GiveUp, UserFunctionFailed
from binshift.spark.frontend.query_errors import failing, of_query


def caught(error: Exception) -> Exception:
    """The error after it was raised from another one, with a note."""
    try:
        error.add_note("while epoch 7 ran")
        raise error from KeyError("k")
    except Exception as raised:  # any error has to keep what it has
        return of_query(raised)


@pytest.mark.parametrize(
    "error",
    [
        UserFunctionFailed("it failed"),
        Fenced("another driver"),
        ValueError("two", 2),
        OSError(28, "No space left on device"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        json.JSONDecodeError("odd", "{", 1),
        KeyError("k"),
        PythonException("a traceback"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_both_types(error: Exception) -> None:
    """A program that catches either gets the message, the cause, the notes and the attributes."""
    found = caught(error)
    assert isinstance(found, StreamingQueryException)
    assert isinstance(found, type(error))
    assert (type(found).__name__, str(found), found.args) == (type(error).__name__, str(error), error.args)
    assert isinstance(found.__cause__, KeyError)
    assert found.__traceback__ is error.__traceback__
    assert found.__notes__ == ["while epoch 7 ran"]
    assert getattr(found, "errno", None) == getattr(error, "errno", None)


def test_attributes_and_conditions() -> None:
    """Attributes of its own stay, and Spark's own errors are passed on."""
    error = GiveUp("it ends")
    error.epoch = 7  # type: ignore[attr-defined]
    assert vars(caught(error))["epoch"] == 7
    sparks = StreamingQueryException("[STREAM_FAILED] as Spark has it")
    assert of_query(sparks) is sparks


def test_a_class_that_takes_no_further_base() -> None:
    """The error is shown as it is."""

    class Closed(Exception):
        def __new__(cls, secret: str) -> Closed:
            assert cls is Closed
            return super().__new__(cls)

        def __init_subclass__(cls) -> None:
            raise TypeError("closed")

    error = Closed("s")
    assert of_query(error) is error


@pytest.mark.parametrize("error", [None, GiveUp("why")], ids=["stopped", "failed"])
def test_the_error_of_the_query_is_raised_instead_of_its_wrapper(error: Exception | None) -> None:
    """A call that Spark ends with its short error raises the query's own, or returns if the query was stopped."""
    ended: list[int] = []

    def call() -> bool:
        with failing(lambda: ended.append(1), lambda: error):
            raise StreamingQueryException("[STREAM_FAILED] in short")
        return True

    if error is None:
        assert call()
    else:
        with pytest.raises(GiveUp, match="why"):
            call()
    assert ended == [1]


def test_a_call_that_succeeds_ends_nothing() -> None:
    """A query that still runs keeps what it holds."""
    with failing(lambda: pytest.fail("ended"), lambda: None):
        pass
