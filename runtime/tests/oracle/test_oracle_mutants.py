"""The oracle itself is tested: it contradicts each of a number of deliberately broken variants of the protocol."""

from __future__ import annotations

import pytest
from oracle_mutants import MUTANTS, caught

pytestmark = pytest.mark.oracle

SEEDS = 60
"""The most histories in which a variant must be caught."""
SOONER = {"older_rows_stay": 34, "replay_writes": 11}
"""For variants that few histories contradict, the seed of one that does: that one is tried before the others."""
VARIANTS_MIN = 15


def test_there_are_enough_variants() -> None:
    """A shrinking list is noticed."""
    assert len(MUTANTS) >= VARIANTS_MIN


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_variant_is_caught(name: str) -> None:
    """Some story or history differs from the reference, or an invariant fails."""
    assert caught(name, SEEDS, SOONER.get(name)), f"nothing contradicts {name}: {MUTANTS[name].__doc__}"
