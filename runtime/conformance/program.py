"""A program: its input step by step, the query that it builds, and the case of Spark's own suites that it follows.

Programs are plain PySpark and must not know which engine runs them. Every choice that both engines could make differently
(the order of rows with the same key in one batch, the time of day) has to be fixed by the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

START = datetime(2024, 3, 1, tzinfo=UTC)
"""Numbers in timestamp columns are seconds after it."""

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Stream:
    """One input: its schema as DDL, and its rows in each step; a step without rows gets no file."""

    schema: str
    steps: tuple[Rows, ...]


def stream(schema: str, *steps: Rows) -> Stream:
    """An input.

    Args:
        schema: as DDL.
        steps: the rows of each step.
    """
    return Stream(schema, steps)


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program.

    Attributes:
        name: unique among all programs.
        kind: the kind of operator, and the module it is defined in.
        purpose: one sentence.
        source: the suite and the case in Spark's sources that it follows.
        inputs: its streams, all with the same number of steps.
        build: makes the query from one streaming frame per input.
        output_mode: of the writer.
        conf: Spark conf while it runs.
        ordered: the order of rows in a batch counts, since the program sorts them.
        repeats: a batch emits rows even if it has no input, so a step has the rows of the newest batch so far: how many batches without
            input there are is no part of the result.
        fails: Spark refuses it, or fails while it runs.
        calm: it runs without moves only: a flip on an idle stream is a batch without input, which the program would notice.
        whole: the rows of all steps count together, since batches without input emit rows, and come at any time.
    """

    name: str
    kind: str
    purpose: str
    source: str
    inputs: tuple[Stream, ...]
    build: Callable[[list[DataFrame]], DataFrame]
    output_mode: str
    conf: Mapping[str, str]
    ordered: bool
    repeats: bool
    fails: bool
    calm: bool
    whole: bool

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.inputs[0].steps)


@dataclass(frozen=True)
class Kind:
    """Collects the programs of one module: use it as a decorator of functions that take one frame per input."""

    name: str
    programs: list[Program] = field(default_factory=list)

    def __call__(
        self,
        *inputs: Stream,
        source: str,
        mode: str = "append",
        conf: Mapping[str, str] | None = None,
        ordered: bool = False,
        repeats: bool = False,
        fails: bool = False,
        calm: bool = False,
        whole: bool = False,
    ) -> Callable[[Callable[..., DataFrame]], Callable[..., DataFrame]]:
        """Register the decorated function as a program with these attributes; its docstring is the purpose."""
        if len({len(each.steps) for each in inputs}) != 1:
            raise ValueError(f"{self.name}, {source}: all streams need the same number of steps")

        def register(build: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
            added = Program(
                name=build.__name__,
                kind=self.name,
                purpose=(build.__doc__ or "").strip(),
                source=source,
                inputs=inputs,
                build=lambda streams: build(*streams),
                output_mode=mode,
                conf=conf or {},
                ordered=ordered,
                repeats=repeats or mode == "complete",
                fails=fails,
                calm=calm,
                whole=whole,
            )
            self.programs.append(added)
            return build

        return register
