"""Errors that cross Spark as the text of a traceback."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pyarrow as pa
import pytest

from binshift.control.problems import _of_the_tree
from binshift.errors import LogDamaged, LogFileMissing, StoreBusy, UserFunctionFailed
from binshift.operators.vectorised import _conform
from binshift.spark.session.error_text import parse

JAVA = "\n\n\tat org.apache.spark.api.python.BasePythonRunner"


@pytest.mark.parametrize(
    "error",
    [
        LogDamaged("x is torn").about(file="x"),
        LogFileMissing("y is gone\nand so is z").about(file="y", operator="state", epoch=7),
        LogDamaged("no file leads there").about(operator="state", epoch=7),
    ],
)
def test_the_fields_of_a_damaged_log_cross(error: LogDamaged) -> None:
    """What an error is about is read back from its note; the note ends its traceback on the other side too."""
    text = "".join(traceback.format_exception(error))
    found = parse(f"An exception was thrown from the Python worker:\n{text}{JAVA}")
    assert isinstance(found, LogDamaged)
    assert found.fields == error.fields
    assert traceback.format_exception_only(found) == traceback.format_exception_only(error)


@pytest.mark.parametrize("fields", ['{"file": "x', "", "null", "[]", '{"files": "x"}', '{"file": 3}', "at Some.java:3"])
def test_a_note_that_was_cut_is_no_field(fields: str) -> None:
    """A cut or foreign note leaves the error without its file; it is not an error of its own."""
    found = parse(f"binshift.errors.LogDamaged: x is torn\nbinshift: {fields}")
    assert isinstance(found, LogDamaged)
    assert (str(found), found.fields) == ("x is torn", {})


@pytest.mark.parametrize("behind", ["", JAVA, "\n\tat org", f"\n\nDriver stacktrace:{JAVA}"])
def test_a_message_of_several_lines_crosses_whole(behind: str) -> None:
    """A message with a table's schema in it has a line for each column; what Spark adds is not part of it."""
    schema = pa.schema({"key": pa.string(), "total": pa.int64()})
    with pytest.raises(UserFunctionFailed) as raised:
        _conform("result", pa.table({"key": ["a"], "total": ["b"]}), schema)
    text = "".join(traceback.format_exception(raised.value)).rstrip("\n")
    found = parse(f"An exception was thrown from the Python worker:\n{text}{behind}")
    assert str(found) == str(raised.value)
    assert "total: int64" in str(found)


def test_a_problem_has_the_fields_of_a_damaged_log() -> None:
    """The control API returns them as members of the problem (RFC 9457), and none of them for another error."""
    request: Any = None
    error = LogDamaged("torn").about(file="targets/1.json", epoch=7)
    damaged = json.loads(bytes(_of_the_tree(request, error).body))
    other = json.loads(bytes(_of_the_tree(request, StoreBusy("busy")).body))
    assert {name: damaged[name] for name in damaged.keys() - other.keys()} == {"file": "targets/1.json", "epoch": 7}


def test_a_name_that_is_no_error_of_binshift() -> None:
    """Only binshift's own errors are read; the newest one wins."""
    assert parse("binshift.errors.json: x") is None
    assert parse("ValueError: x") is None
    assert isinstance(parse("binshift.errors.LogDamaged: x\nbinshift.errors.StoreBusy: y"), StoreBusy)
