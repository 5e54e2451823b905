"""The conformance run without Spark: its comparison finds differences, and its programs are complete."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from binshift.strategies import Strategy
from conformance import __main__ as command
from conformance.moves import Moves
from conformance.outcome import Outcome, text
from conformance.program import Kind, Program, stream
from conformance.programs import KINDS, PROGRAMS
from conformance.report import Result, table

SPARK = Outcome("struct<k:string>", (("('a')",), (), ("('a')", "('b')")))
PROGRAM = PROGRAMS[0]


def _result(program: Program, expected: Outcome, calm: Outcome) -> Result:
    return Result(program, expected, {"calm": calm}, None, 1.0)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (replace(SPARK, steps=(("('a')",), (), ("('a')",))), "step 2: missing ('b')"),
        (replace(SPARK, steps=(("('a')",), ("('c')",), ("('a')", "('b')"))), "step 1: extra ('c')"),
        (
            replace(SPARK, steps=(("('a')",), (), ("('b')", "('a')"))),
            "step 2: order ('b'), ('a'); expected ('a'), ('b')",
        ),
        (replace(SPARK, columns="struct<k:int>"), "columns struct<k:int>, expected struct<k:string>"),
        (replace(SPARK, error="X"), "error X, expected none"),
    ],
)
def test_every_difference_is_found(other: Outcome, line: str) -> None:
    """Rows, their order, columns and errors are compared; equal outcomes have no difference."""
    assert list(other.differences(SPARK)) == [line]
    assert list(SPARK.differences(SPARK)) == []


def test_values_are_equal_as_text_if_they_are_equal() -> None:
    """NaN equals itself, -0.0 differs from 0.0, 1 differs from 1.0 and "1", and the last digits of a sum do not count."""
    values = (float("nan"), 0.0, -0.0, 1, 1.0, "1", True, None, float("inf"), [1], (1,), b"1")
    assert len({text(value) for value in values}) == len(values)
    assert text(0.1 + 0.2) == text(0.3)


def test_a_refusal_is_neither_the_same_nor_a_problem() -> None:
    """A refused program is counted as refused, with its message in the table."""
    refused = _result(PROGRAM, SPARK, Outcome(refused="no such operator yet"))
    assert list(refused.problems()) == []
    assert not refused.same("calm")
    assert "no such operator yet" in table([refused], ["calm"])
    assert "| all | 1 | 0 | 1 |" in table([refused], ["calm"])


def test_the_table_of_the_readme_has_every_program() -> None:
    """The README shows the table of a run: each kind with its number of programs, and every program is the same or refused."""
    shown = (
        (Path(__file__).resolve().parents[2] / "README.md")
        .read_text(encoding="utf-8")
        .partition("| programs | number |")[2]
    )
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in shown.partition("\n\n")[0].splitlines()[2:]
    ]
    counts = Counter(each.kind for each in PROGRAMS)
    assert {kind: int(number) for kind, number, *_ in rows} == {**counts, "all": len(PROGRAMS)}
    assert [kind for kind, number, calm, _, refused in rows if int(calm) + int(refused) != int(number)] == []


def test_an_empty_or_failing_oracle_is_a_problem() -> None:
    """A program without rows proves nothing, and an error has to be declared."""
    empty = Outcome("struct<k:string>", ((), ()))
    assert len(list(_result(PROGRAM, empty, empty).problems())) == 1
    failed = Outcome(error="X")
    assert list(_result(replace(PROGRAM, fails=True), failed, failed).problems()) == []
    assert len(list(_result(PROGRAM, failed, failed).problems())) == 2


def test_a_run_without_a_move_is_a_problem() -> None:
    """If no bin was moved, the run with moves proves nothing."""
    still = replace(_result(PROGRAM, SPARK, SPARK), moves=Counter())
    assert list(still.problems()) == ["no bin was moved, so the run with moves proves nothing"]
    assert list(replace(still, moves=Counter(Fluid=1)).problems()) == []


def test_the_report_states_how_often_each_strategy_moved_bins() -> None:
    """By kind of program and together, and how long all runs took."""
    moved = [replace(_result(PROGRAM, SPARK, SPARK), moves=Counter(each)) for each in (["Fluid"], ["Fluid", "Batched"])]
    text = table(moved, ["calm"])
    assert "All runs took 0 minutes." in text
    assert "| moves | Batched | Fluid |" in text
    assert "| all | 1 | 2 |" in text


def test_the_strategies_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a program and from one program to the next."""
    asked: list[str] = []

    def begin(self: Moves, query: object, step: int, strategy: str) -> _Settled:
        asked.append(strategy)
        return _Settled()

    monkeypatch.setattr(Moves, "_begin", begin)
    for first in range(2):
        moves = Moves(first)
        for step in range(3):
            moves(_Query(), step)  # type: ignore[arg-type]
        assert moves.settled == Counter(asked[-3:])
    names = [each.value for each in Strategy]
    assert asked == [*names[:3], *names[1:]]


class _Query:
    rescale, route = None, ()


class _Settled:
    def wait(self, seconds: float) -> SimpleNamespace:
        return SimpleNamespace(value="settled")


def test_programs_are_complete() -> None:
    """Each program has a name of its own in its kind, a purpose of one sentence, a source, and two steps at least."""
    names = Counter((each.kind, each.name) for each in PROGRAMS)
    assert max(names.values()) == 1
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert [each.name for each in PROGRAMS if not each.purpose.endswith(".") or "\n" in each.purpose] == []
    assert [each.name for each in PROGRAMS if ": " not in each.source or each.steps < 2] == []


def test_streams_of_a_program_have_the_same_steps() -> None:
    """A step is one for all streams, so their numbers of steps must agree."""
    with pytest.raises(ValueError, match="same number of steps"):
        Kind("test")(stream("k long", [(1,)]), stream("k long", [(1,)], []), source="none")


def test_the_command_lists_and_selects(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`--list -k` shows the chosen programs, and a name without program is an error."""
    assert command.main(["--list", "-k", "sessions/append"]) == 0
    assert capsys.readouterr().out.startswith("sessions/append [append] A session is emitted")
    assert command.main(["-k", "nothing has this name", "--report", str(tmp_path / "report.md")]) == 1
