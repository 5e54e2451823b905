"""The outcome of a program, in a form in which two runs can be compared: rows as text, step by step, or an error.

Only what a user can observe counts. NaN equals NaN, 0.0 differs from -0.0, and floating-point numbers are equal to 12 digits,
because no engine promises the order in which it adds partial sums.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException

CONDITION = re.compile(r"\[([A-Z_][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
WRAPPERS = frozenset({"FOREACH_BATCH_USER_FUNCTION_ERROR", "STREAM_FAILED"})
"""Conditions that only wrap another one."""
UNNAMED = "an error without condition"
"""Stands for all errors that Spark has not given a name."""


@dataclass(frozen=True)
class Outcome:
    """What one run returned.

    Attributes:
        columns: names and types of the batches' columns; empty without a batch, and not compared if no step has ended.
        steps: the rows of each step, sorted unless the program sorts them.
        error: the condition of the error; empty without failure.
        detail: when it failed, and the message; not compared, as binshift reports before the start what Spark reports in a batch.
        refused: the message with which binshift refused the program.
    """

    columns: str = ""
    steps: tuple[tuple[str, ...], ...] = ()
    error: str = ""
    detail: str = ""
    refused: str = ""

    @property
    def rows(self) -> int:
        """The number of rows in all steps."""
        return sum(map(len, self.steps))

    def differences(self, other: Outcome) -> Iterator[str]:
        """Each difference to another outcome, which is the expected one, as a line of text."""
        if self.error != other.error:
            detail = f" ({self.detail})" if self.detail else ""
            yield f"error {self.error or 'none'}{detail}, expected {other.error or 'none'}"
        if self.columns != other.columns and (self.steps or other.steps or not self.error):
            yield f"columns {self.columns or 'none'}, expected {other.columns or 'none'}"
        for number in range(max(len(self.steps), len(other.steps))):
            found, expected = (each.steps[number] if number < len(each.steps) else () for each in (self, other))
            if found == expected:
                continue
            extra, missing = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
            yield from (f"step {number}: extra {row}" for row in sorted(extra.elements()))
            yield from (f"step {number}: missing {row}" for row in sorted(missing.elements()))
            if not extra and not missing:
                yield f"step {number}: order {', '.join(found)}; expected {', '.join(expected)}"


def text(value: Any) -> str:
    """A value as text that is equal if and only if the values are.

    >>> text((float("nan"), -0.0, 1 / 3, bytearray(b"a"), {"b": 2, "a": [None]}))
    "(nan, -0.0, 0.333333333333, b'a', {'a': [None], 'b': 2})"
    """
    match value:
        case float():
            short = f"{value:.12g}"
            return short if re.search(r"[.en]", short) else f"{short}.0"
        case tuple():
            return f"({', '.join(map(text, value))})"
        case list():
            return f"[{', '.join(map(text, value))}]"
        case dict():
            return f"{{{', '.join(sorted(f'{text(key)}: {text(each)}' for key, each in value.items()))}}}"
        case bytearray():
            return repr(bytes(value))
        case _:
            return repr(value)


def condition(error: BaseException) -> str:
    """Spark's error condition, the first in the message that does not only wrap another; else the class, or `UNNAMED` for Spark's.

    >>> condition(ValueError("[STREAM_FAILED] Query terminated: [DIVIDE_BY_ZERO] Division by zero."))
    'DIVIDE_BY_ZERO'
    >>> condition(ValueError("no condition"))
    'ValueError'
    """
    found = [each for each in CONDITION.findall(str(error)) if each not in WRAPPERS]
    own = error.getCondition() if isinstance(error, PySparkException) else type(error).__name__
    chosen = found[0] if found else own
    return UNNAMED if not chosen or chosen in WRAPPERS or chosen.startswith("_LEGACY") else chosen
