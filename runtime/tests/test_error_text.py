"""Errors that cross Spark as the text of a traceback."""

from __future__ import annotations

import pytest

from binshift.errors import LogDamaged, StoreBusy, parse


def test_the_file_of_a_damaged_log_crosses() -> None:
    """The file that an error is about is read back from its note."""
    error = LogDamaged("x is torn").about("x")
    notes = "\n".join(error.__notes__)
    found = parse(f"Traceback: ...\nbinshift.errors.LogDamaged: x is torn\n{notes}\n")
    assert isinstance(found, LogDamaged)
    assert found.file == "x"


@pytest.mark.parametrize("fields", ['{"file": "x', "", "null", "[]", '{"files": "x"}', '{"file": 3}', "at Some.java:3"])
def test_a_note_that_was_cut_is_no_field(fields: str) -> None:
    """A cut or foreign note leaves the error without its file; it is not an error of its own."""
    found = parse(f"binshift.errors.LogDamaged: x is torn\nbinshift: {fields}")
    assert isinstance(found, LogDamaged)
    assert (str(found), found.file) == ("x is torn", None)


def test_a_name_that_is_no_error_of_binshift() -> None:
    """Only binshift's own errors are read; the newest one wins."""
    assert parse("binshift.errors.json: x") is None
    assert parse("ValueError: x") is None
    assert isinstance(parse("binshift.errors.LogDamaged: x\nbinshift.errors.StoreBusy: y"), StoreBusy)
