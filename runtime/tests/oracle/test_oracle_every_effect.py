"""One short history with one fault, at every single effect in turn: none may do harm."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from oracle_fixed import places
from oracle_fixed_fates import fixed_fate

from simulator import Effect

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("quiet")]

EFFECTS_MIN = 150
"""With fewer effects, the fixed history is no longer the same."""

SHARES = 8
"""Cases that the effects are divided among, so that several processes can try them."""


@pytest.fixture(scope="module")
def effects() -> list[Effect]:
    """The effects of the history without faults."""
    return places()


def wrong(effects: Sequence[Effect], share: int, kind: str) -> list[str]:
    """The wrong outcomes of the histories with this fault at a share of these effects."""
    return [outcome for effect in effects[share::SHARES] if (outcome := fixed_fate(effect.number, kind))]


def test_the_history_has_many_effects(effects: list[Effect]) -> None:
    """The cases below try something: each share of the effects has many."""
    assert len(effects) > EFFECTS_MIN


@pytest.mark.parametrize("share", range(SHARES))
def test_a_kill_at_every_effect(effects: list[Effect], share: int) -> None:
    """Any process may die before each of its effects, and after the previous one."""
    assert wrong(effects, share, "kill") == []


@pytest.mark.parametrize("share", range(SHARES))
def test_a_lost_reply_to_every_write(effects: list[Effect], share: int) -> None:
    """Every write of a file may succeed and then be reported as failed."""
    assert wrong([each for each in effects if each.kind == "write"], share, "lose") == []


@pytest.mark.parametrize("share", range(SHARES))
def test_a_refusal_of_every_read_and_write(effects: list[Effect], share: int) -> None:
    """The file system, or a store that another task holds, may fail any operation once."""
    assert wrong([each for each in effects if each.kind != "step"], share, "refuse") == []


@pytest.mark.parametrize("share", range(SHARES))
def test_another_driver_takes_over_at_every_second_effect(effects: list[Effect], share: int) -> None:
    """A process that is suspended while another driver finishes the epoch may continue: it is fenced, and changes nothing."""
    assert wrong(effects[::2], share, "take over") == []
