"""The oracle itself is tested: it contradicts each of a number of deliberately broken variants of the protocol."""

from __future__ import annotations

from concurrent.futures import Future, ProcessPoolExecutor

import pytest
from oracle_mutants import MUTANTS, caught

pytestmark = pytest.mark.oracle

SEEDS = 60
"""The most histories in which a variant must be caught."""
VARIANTS_MIN = 15


@pytest.fixture(scope="module")
def verdicts(crew: ProcessPoolExecutor) -> dict[str, Future[str]]:
    """The variants, running."""
    return {name: crew.submit(caught, name, SEEDS) for name in MUTANTS}


def test_there_are_enough_variants() -> None:
    """A shrinking list is noticed."""
    assert len(MUTANTS) >= VARIANTS_MIN


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_variant_is_caught(name: str, verdicts: dict[str, Future[str]]) -> None:
    """Some story or history differs from the reference, or an invariant fails."""
    assert verdicts[name].result(), f"nothing contradicts {name}: {MUTANTS[name].__doc__}"
