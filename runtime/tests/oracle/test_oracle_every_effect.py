"""One short history with one fault, at every single effect in turn: none may do harm."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import pytest
from oracle_fixed import places
from oracle_fixed_fates import fixed_fate

from simulator import Effect

pytestmark = pytest.mark.oracle

EFFECTS_MIN = 150
"""With fewer effects, the fixed history is no longer the same."""


@pytest.fixture(scope="module")
def effects() -> list[Effect]:
    """The effects of the history without faults."""
    return places()


def wrong(crew: ProcessPoolExecutor, effects: list[Effect], kind: str) -> list[str]:
    """The wrong outcomes of the histories with this fault at these effects."""
    fates = [crew.submit(fixed_fate, effect.number, kind) for effect in effects]
    return [outcome for fate in fates if (outcome := fate.result())]


def test_a_kill_at_every_effect(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """Any process may die before each of its effects, and after the previous one."""
    assert len(effects) > EFFECTS_MIN
    assert wrong(crew, effects, "kill") == []


def test_a_lost_reply_to_every_write(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """Every write of a file may succeed and then be reported as failed."""
    assert wrong(crew, [each for each in effects if each.kind == "write"], "lose") == []


def test_a_refusal_of_every_read_and_write(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """The file system, or a store that another task holds, may fail any operation once."""
    assert wrong(crew, [each for each in effects if each.kind != "step"], "refuse") == []


def test_another_driver_takes_over_at_every_second_effect(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """A process that is suspended while another driver finishes the epoch may continue: it is fenced, and changes nothing."""
    assert wrong(crew, effects[::2], "take over") == []
