"""If rounds of background work last as long as several epochs, on a busy stream every migration ends nevertheless."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from oracle_flows import chain, rows_for

from binshift.migration import Limits
from binshift.model import Worker
from binshift.strategies import Strategy
from simulator import SimulatedCluster, Tuning

pytestmark = pytest.mark.oracle


def busy(cluster: SimulatedCluster, keys: int = 12) -> Callable[[], object]:
    """One epoch with input."""
    rng = random.Random(3)
    return lambda: cluster.epoch(rows_for(rng, len(cluster.world.stream.batches), keys, 10))


def rescaled(cluster: SimulatedCluster, round_epochs: int, strategy: Strategy, rounds_max: int) -> None:
    """Move half of the bins to two more workers while this many epochs pass during each round."""
    epoch = busy(cluster)
    for _ in range(5):
        epoch()
    migration = cluster.rescale(4, strategy.value)
    for _ in range(rounds_max):
        if migration.ended:
            break
        cluster.background([epoch] * round_epochs)
    assert migration.status == "settled", f"{migration} after {rounds_max} rounds of {round_epochs} epochs"
    assert cluster.route is not None
    assert cluster.route.workers == tuple(map(Worker, range(4)))
    for _ in range(4):
        cluster.background([epoch] * round_epochs)
    assert cluster.leftovers() == {}


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("round_epochs", range(1, 9))
def test_a_round_of_several_epochs(round_epochs: int, strategy: Strategy) -> None:
    """Epochs pass while a round runs (I6), for every strategy, with the default limits of a query."""
    cluster = SimulatedCluster(chain(), bins=16, workers=2, slots=4, tuning=Tuning(limits=Limits()), seed=round_epochs)
    rescaled(cluster, round_epochs, strategy, 40)


@pytest.mark.parametrize("round_epochs", [2, 5, 8])
def test_many_bins_and_long_rounds(round_epochs: int) -> None:
    """This holds with the default number of bins and the default step size."""
    cluster = SimulatedCluster(chain(), bins=4096, workers=2, slots=4, seed=round_epochs)
    rescaled(cluster, round_epochs, Strategy.ALL_AT_ONCE, 20)
