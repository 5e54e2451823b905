"""The autoscaler on traces: how many decisions, how late, and how much it costs, on a model of a cluster (`autoscale_world`)."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from autoscale_world import PER_ROW, Trace, World, ideal_worker_seconds

from binshift.autoscale import Reason
from binshift.worker_need import Policy

POLICY = Policy(1, 16)
STEP_AT, COLD, MOVE, MAX_EPOCH = 600.0, 20.0, 8.0, 2.0
NEEDED = math.ceil(PER_ROW * 80_000 / POLICY.utilization)


def step(now: float) -> float:
    """Eight times the load from `STEP_AT` on."""
    return 10_000 if now < STEP_AT else 80_000


def day(now: float) -> float:
    """From 5,000 to 75,000 rows/s and back."""
    return 40_000 - 35_000 * math.cos(2 * math.pi * now / 86_400)


def noisy(trace: Trace, share: float) -> Trace:
    """With another factor every five seconds."""
    drawn = random.Random(5)
    factors = [drawn.uniform(1 - share, 1 + share) for _ in range(20_000)]
    return lambda now: trace(now) * factors[int(now / 5)]


@pytest.mark.parametrize("max_epoch", [MAX_EPOCH, None], ids=["bounded", "unbounded"])
def test_a_step_needs_few_decisions(max_epoch: float | None) -> None:
    """At most three lead to the right number of workers, and records wait no longer than pods and moves take."""
    world = World(step, POLICY, max_epoch=max_epoch).run(2400)
    assert 1 <= len(world.after(STEP_AT)) <= 3
    assert world.after(STEP_AT)[0][0] <= STEP_AT + 5
    assert NEEDED <= world.desired <= 1.25 * NEEDED
    if max_epoch is not None:
        assert world.worst() <= COLD + MOVE + 2 * MAX_EPOCH
        assert max(each.seconds for each in world.epochs[10:]) <= 1.25 * MAX_EPOCH


def test_a_source_that_does_not_know_its_backlog() -> None:
    """While epochs are at their bound, the workers are doubled; in the end there are as many as needed."""
    world = World(step, POLICY, knows_backlog=False).run(2400)
    assert world.worst() <= COLD + MOVE + 2 * MAX_EPOCH
    assert NEEDED <= world.desired <= 1.25 * NEEDED


@pytest.mark.parametrize("cold", [5.0, 90.0])
def test_pods_that_start_fast_and_slowly(cold: float) -> None:
    """What piles up meanwhile is worked off, and the number of workers ends near the right one."""
    world = World(step, POLICY, cold_seconds=cold).run(3000)
    assert world.worst() <= 1.25 * (cold + MOVE) + 2 * MAX_EPOCH
    assert NEEDED <= world.desired <= 1.25 * NEEDED
    assert len(world.after(STEP_AT)) <= 6


def test_a_ramp_is_followed() -> None:
    """One worker after the other, before anything is late."""
    world = World(lambda now: 5_000 + 75_000 * min(1.0, now / 3600), POLICY).run(4800)
    assert world.worst() <= 2.0
    assert all(after == before + 1 for (_, before), (_, after) in pairwise(world.after(0)))


def test_a_day_needs_few_rescales() -> None:
    """Up in the morning and down in the evening, without flapping, and near the least possible cost."""
    world = World(day, POLICY).run(86_400)
    assert world.rescales <= 20
    assert world.worst() <= 2.0
    assert world.worker_seconds <= 1.25 * ideal_worker_seconds(day, 86_400, POLICY)


def test_noise_does_not_make_it_flap() -> None:
    """Six hours at a steady mean, plus and minus 30 %."""
    world = World(noisy(lambda now: 40_000.0, 0.3), POLICY, workers=4).run(6 * 3600)
    assert world.rescales <= 6
    assert world.worst() <= 2.0


def test_spikes_of_a_minute_cost_little() -> None:
    """They are over before pods have started; the backlog is bounded, and the workers return."""
    world = World(lambda now: 100_000 if now % 1200 < 60 else 20_000, POLICY).run(7200)
    assert world.worst() <= 60
    assert world.rescales <= 36


def test_an_outage_of_the_source_is_caught_up() -> None:
    """Nothing comes for a quarter of an hour, and then all of it at once."""

    def outage(now: float) -> float:
        return 0 if 600 <= now < 1500 else 20_000 + (1_800_000 if 1500 <= now < 1510 else 0)

    world = World(outage, POLICY, workers=2).run(3600)
    assert world.worst(1530) <= 400
    assert world.latencies[-1][1] <= 1.0
    assert world.desired <= 3


def test_skew_is_part_of_the_cost() -> None:
    """With a worker that has half as much again to do, and no way to share that, half as many again are needed."""
    world = World(step, POLICY, skew=1.5).run(2400)
    assert 1.5 * PER_ROW * 80_000 / POLICY.utilization <= world.desired <= 1.25 * 1.5 * NEEDED
    assert len(world.after(STEP_AT)) <= 4


UNEVEN = 1.5
"""The busiest worker's part over the mean, and ..."""
EVEN = 1.05
"""... what that becomes once the workers share the bins by load."""
SHORT = 0.8 * 4 * POLICY.utilization / PER_ROW / EVEN
"""Rows per second for which four workers are enough once they share the bins by load, and not before."""


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_skew_is_a_reason_to_rebalance_first(noise: float) -> None:
    """Where the present workers are enough once they share the bins by load, they do, once, and no worker is added."""
    trace: Trace = noisy(lambda now: SHORT / 3 if now < STEP_AT else SHORT, noise)
    world = World(trace, Policy(4, 16), workers=4, skew=UNEVEN, balanced=EVEN).run(3600)
    ((at, decision),) = world.rebalances
    assert (decision.reason, decision.workers) == (Reason.REBALANCE, 4)
    assert STEP_AT - 300 < at <= STEP_AT + 10
    assert "the busiest has 1.5 times its share of the rows, 1.1 times after a rebalance" in decision.message
    assert max([4, *(workers for at, workers in world.after(STEP_AT))]) == 4
    assert world.worst() <= MOVE + 2 * MAX_EPOCH


def test_a_step_with_skew_needs_fewer_workers_than_the_present_cost_shows() -> None:
    """New workers share all bins by load, so that a row costs less afterwards: that is known when their number is decided.

    In the first second of the step, when a rebalance seems to be enough, one can begin: it delays nothing.
    """
    world = World(step, POLICY, skew=UNEVEN, balanced=EVEN, workers=2).run(2400)
    assert NEEDED <= world.desired <= 1.25 * EVEN * NEEDED
    assert max(workers for _, workers in world.after(STEP_AT)) < UNEVEN * NEEDED
    assert len(world.after(STEP_AT)) <= 3
    assert len(world.rebalances) <= 1
    assert world.after(STEP_AT)[0][0] <= STEP_AT + 5
    assert world.worst() <= COLD + MOVE + 2 * MAX_EPOCH


def test_a_rebalance_that_does_not_help_is_followed_by_a_growth() -> None:
    """As soon as its effect is measured, and without another try."""
    trace: Trace = lambda now: SHORT / 3 if now < STEP_AT else SHORT  # noqa: E731
    world = World(trace, Policy(4, 16), workers=4, skew=UNEVEN, balanced=EVEN, stubborn=True).run(3600)
    ((at, _),) = world.rebalances
    grown, workers = world.after(at)[0]
    assert at < grown <= at + MOVE + 10 * MAX_EPOCH
    assert workers >= UNEVEN * PER_ROW * SHORT / POLICY.utilization
    assert len(world.after(at)) <= 2


def test_skew_that_recurs_does_not_flap() -> None:
    """Keys that repeatedly get hot lead to a rebalance in five minutes at most, and in between to workers that stay."""
    trace: Trace = noisy(lambda now: SHORT, 0.2)
    world = World(trace, Policy(4, 16), workers=4, skew=UNEVEN, balanced=EVEN)
    for _ in range(2 * 60):
        world.run(60)
        world.skew, world.balanced = UNEVEN, EVEN
    assert len(world.rebalances) <= 2 * 12
    assert world.rescales <= 4


def test_skew_that_does_not_matter_moves_nothing() -> None:
    """As long as the busiest worker is fast enough."""
    world = World(lambda now: SHORT / 3, Policy(4, 16), workers=4, skew=UNEVEN, balanced=EVEN).run(3600)
    assert (world.rebalances, world.rescales) == ([], 0)


def test_a_full_range_is_rebalanced() -> None:
    """Where no worker can be added, the present ones share the bins by load."""
    world = World(lambda now: SHORT, Policy(1, 4), workers=4, skew=2.0, balanced=EVEN).run(1800)
    assert len(world.rebalances) == 1
    assert world.desired == 4
    assert world.latencies[-1][1] <= 2.0


def test_growing_stops_where_it_brings_nothing() -> None:
    """More workers have no more capacity: after two growths there is no third, and the reason is given."""
    policy = Policy(1, 64)
    world = World(step, policy, per_row=lambda workers: PER_ROW * workers / 2).run(1800)
    last = world.decisions[-1][0]
    assert world.desired <= 32
    assert last < 900
    found = world.ask()
    assert found.reason is Reason.INEFFECTIVE
    assert "hot key" in found.message


@pytest.mark.parametrize(("share", "most"), [(0.6, 2), (0.26, 4), (0.05, 20)])
@pytest.mark.parametrize("knows_backlog", [True, False])
def test_growing_ends_at_the_hottest_bin(share: float, most: int, knows_backlog: bool) -> None:
    """However much waits, there are no more workers than can help: one of them has the hottest bin alone. The reason is given."""
    world = World(lambda now: 400_000, Policy(1, 64), workers=1, hottest=share, knows_backlog=knows_backlog).run(1800)
    assert world.desired == max(workers for _, workers in world.after(0)) == most
    assert len(world.decisions) <= 5
    found = world.ask()
    assert (found.reason, found.workers, found.recommended) == (Reason.INEFFECTIVE, most, most)
    assert f"one bin has {share:.0%} of the rows: more workers than {most} do not help" in found.message
    assert all(each.reason is not Reason.SPARE for _, _, each in world.decisions)


def test_a_hot_bin_that_is_no_limit_changes_nothing() -> None:
    """As long as the load needs fewer workers than can help, decisions are those of a load without it."""
    world, other = World(step, POLICY, hottest=0.01), World(step, POLICY)
    assert world.run(2400).decisions == other.run(2400).decisions


def test_workers_stay_when_a_bin_gets_hot() -> None:
    """If more workers than can help exist already, they stay while the load needs them, and go when it does not."""
    trace: Trace = lambda now: 80_000 if now < 1200 else 5_000  # noqa: E731
    world = World(trace, POLICY, workers=6).run(600)
    before = world.desired
    world.hottest = 0.5
    world.run(600)
    assert world.desired == before
    assert world.ask().reason is Reason.INEFFECTIVE
    world.run(2400)
    assert world.desired <= 2


def test_the_reason_does_not_flap_at_the_limit() -> None:
    """A load that just needs one worker more than can help, with noise, has one reason."""
    world = World(noisy(lambda now: 2 * 1.05 * POLICY.utilization / PER_ROW, 0.3), POLICY, hottest=0.5).run(600)
    reasons = set()
    for _ in range(600):
        world.run(1)
        reasons.add(world.ask().reason)
    assert reasons == {Reason.INEFFECTIVE}


def test_workers_return_after_a_slow_disk() -> None:
    """The fixed part of an epoch takes two seconds for ten minutes: a few more workers work off what waits, and go."""
    world = World(lambda now: 10_000, POLICY, fixed=lambda now: 2.0 if 300 <= now < 900 else 0.15).run(3000)
    assert max(workers for _, workers in world.after(0)) <= 12
    assert world.desired <= 3
    assert world.latencies[-1][1] <= 1.0
