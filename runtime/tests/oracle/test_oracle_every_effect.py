"""One short history with one fault, at every single effect in turn: none may be harmful."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import pytest
from oracle_fixed import places
from oracle_fixed_fates import fixed_fate

from binshift.testing import Effect

pytestmark = pytest.mark.oracle

EFFECTS_MIN = 150
"""The fixed history is not a fixed history any more if it has fewer."""


@pytest.fixture(scope="module")
def effects() -> list[Effect]:
    """The effects of the history when nothing goes wrong."""
    return places()


def wrong(crew: ProcessPoolExecutor, effects: list[Effect], kind: str) -> list[str]:
    """What the histories with this fault at these effects tell."""
    fates = [crew.submit(fixed_fate, effect.number, kind) for effect in effects]
    return [told for fate in fates if (told := fate.result())]


def test_a_kill_at_every_effect(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """Whoever is about to do something may die before it, and after what it did before."""
    assert len(effects) > EFFECTS_MIN
    assert wrong(crew, effects, "kill") == []


def test_a_lost_reply_to_every_write(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """Every write of a file may be done and then reported as failed."""
    assert wrong(crew, [each for each in effects if each.kind == "write"], "lose") == []


def test_a_refusal_of_every_read_and_write(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """The file system, or a store that another task holds, may refuse anything once."""
    assert wrong(crew, [each for each in effects if each.kind != "step"], "refuse") == []


def test_another_driver_takes_over_at_every_second_effect(crew: ProcessPoolExecutor, effects: list[Effect]) -> None:
    """Whoever stands still while another driver finishes the epoch may go on: it is shut out, and changes nothing."""
    assert wrong(crew, effects[::2], "take over") == []
