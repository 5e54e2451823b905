"""Migrations in a simulated world: any order of events keeps all guarantees, and without further faults migrations end.

Hypothesis finds and shrinks short histories, the walks are long ones. After a history, a world without faults (copies succeed,
epochs are recorded, and on this idle stream only requested ones) must bring the migration to its end.
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from migration_world import FIRST_EPOCH, World

from binshift import migration as mg
from binshift.model import Bin, Epoch, Worker
from binshift.routing import Route
from binshift.strategies import Strategy, cut

BINS, WORKERS = 16, 5

routes = st.lists(st.integers(0, WORKERS - 1), min_size=BINS, max_size=BINS).map(lambda owners: Route(np.array(owners)))
workers = st.integers(0, WORKERS - 1).map(Worker)
limits = st.builds(
    mg.Limits,
    steps_inflight_max=st.integers(1, 4),
    copy_bins_inflight_max=st.integers(1, BINS),
    copy_bytes_inflight_max=st.integers(1, 10 * BINS),
    flips_per_epoch_max=st.integers(1, 3),
    flip_bins_per_epoch_max=st.integers(1, BINS),
    gap_epochs=st.integers(0, 2),
    copy_retries_max=st.integers(0, 2),
    flip_abandons_max=st.integers(0, 3),
    flip_deltas_max=st.integers(1, 2),
    flip_misses_max=st.integers(0, 2),
    in_order=st.booleans(),
)


class AnyOrder(RuleBasedStateMachine):
    """Any events in any order."""

    @initialize(
        routes=st.tuples(routes, routes),
        cutting=st.tuples(st.sampled_from(Strategy), st.integers(1, 4)),
        limits=limits,
        pre_copy=st.booleans(),
        cold=st.frozensets(workers),
        sizes=st.none() | st.lists(st.integers(0, 20), min_size=BINS, max_size=BINS).map(np.array),
    )
    def begin(
        self,
        routes: tuple[Route, Route],
        cutting: tuple[Strategy, int],
        limits: mg.Limits,
        pre_copy: bool,
        cold: frozenset[Worker],
        sizes: npt.NDArray[np.int64] | None,
    ) -> None:
        self.start, self.target = routes
        schedule = cut(self.start.moves_to(self.target.owners), *cutting)
        plan = mg.MigrationPlan(schedule, cold, pre_copy, sizes)
        self.world = World(self.start, mg.begin(plan, limits, FIRST_EPOCH))

    @rule()
    def started(self) -> None:
        self.world.send(mg.Started())

    @rule(these=st.frozensets(workers))
    def warm(self, these: frozenset[Worker]) -> None:
        self.world.send(mg.WorkersWarm(these & self.world.wanted_warm))

    def some_copy(self, choice: int) -> tuple[mg.StepNumber, Worker]:
        return sorted(self.world.attempts)[choice % len(self.world.attempts)]

    @precondition(lambda self: self.world.attempts)
    @rule(choice=st.integers(0, 99), lag=st.integers(0, 3))
    def copy_gets_further(self, choice: int, lag: int) -> None:
        step, destination = self.some_copy(choice)
        epoch = Epoch(self.world.recorded - lag)
        self.world.copies_at(step, destination, epoch)
        self.world.send(mg.CopyAt(step, destination, epoch, self.world.attempts[step, destination]))

    @rule()
    def round_ends(self) -> None:
        self.world.send(mg.RoundReported())

    @precondition(lambda self: self.world.attempts)
    @rule(choice=st.integers(0, 99), retryable=st.sampled_from([True, True, True, False]))
    def copy_fails(self, choice: int, retryable: bool) -> None:
        step, destination = self.some_copy(choice)
        self.world.copies_at(step, destination, None)
        attempt = self.world.attempts[step, destination]
        self.world.send(mg.CopyFailed(step, destination, "disk full", retryable, attempt))

    @precondition(lambda self: self.world.attempts)
    @rule(choice=st.integers(0, 99))
    def old_attempt_reports(self, choice: int) -> None:
        step, destination = self.some_copy(choice)
        attempt = self.world.attempts[step, destination] - 1
        before = self.world.state
        self.world.send(mg.CopyAt(step, destination, self.world.recorded, attempt))
        self.world.send(mg.CopyFailed(step, destination, "late", False, attempt))
        assert self.world.state == before

    @rule(outcome=st.sampled_from(["recorded", "recorded", "recorded", "abandoned"]))
    def epoch_goes_on(self, outcome: str) -> None:
        if self.world.running_route is None:
            self.world.epoch_starts()
        elif outcome == "recorded":
            self.world.epoch_recorded()
        else:
            self.world.epoch_abandoned()

    @rule(limits=limits)
    def paced(self, limits: mg.Limits) -> None:
        self.world.send(mg.Paced(limits))

    @precondition(lambda self: self.world.recorded > FIRST_EPOCH + 1)
    @rule(worker=workers)
    def worker_lost(self, worker: Worker) -> None:
        self.world.worker_lost(worker)

    @precondition(lambda self: self.world.recorded > FIRST_EPOCH)
    @rule()
    def cancelled(self) -> None:
        self.world.send(mg.Cancel("changed my mind"))

    @invariant()
    def promises_are_kept(self) -> None:
        promises_are_kept(self.world, self.start, self.target)

    def teardown(self) -> None:
        must_end(self.world, self.target)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=80, stateful_step_count=40)


def promises_are_kept(world: World, start: Route, target: Route) -> None:
    """A bin is at its old or, once it has flipped, at its new worker; and progress counts exactly the flipped ones."""
    for bin_ in map(Bin, range(BINS)):
        expected = target if bin_ in world.moved else start
        assert world.route.owner(bin_) == expected.owner(bin_)
    seen = mg.progress(world.state)
    if not world.state.ended:
        assert seen.bins_moved == len(world.moved)
    assert seen.bins_moved + seen.bins_copied <= seen.bins_total


def must_end(world: World, target: Route) -> None:
    """Without faults the migration ends, and nothing is left behind."""
    world.turn_good()
    assert (world.state.ended is mg.Phase.SETTLED) == (world.route == target)
    assert (world.state.reason == "") == (world.state.ended is mg.Phase.SETTLED)
    assert not world.copies, "a destination has copies that will never be dropped"
    left = {(copy.worker, bin_) for copy in world.state.kept if copy.worker not in world.lost for bin_ in copy.bins}
    assert set(world.kept) == left, "a source has copies that will never be dropped"


def any_limits(dice: random.Random) -> mg.Limits:
    """Limits that usually let several steps be in progress."""
    return mg.Limits(
        steps_inflight_max=dice.randint(1, 5),
        copy_bins_inflight_max=dice.choice([1, 6, BINS]),
        flips_per_epoch_max=dice.randint(1, 3),
        flip_bins_per_epoch_max=dice.choice([1, 5, BINS]),
        gap_epochs=dice.choice([0, 0, 1, 2]),
        copy_retries_max=dice.randint(0, 4),
        flip_abandons_max=dice.randint(0, 4),
        in_order=dice.random() < 0.5,
    )


def happen(world: World, dice: random.Random) -> None:
    """One event that is frequent in a long history."""
    copies = sorted(world.attempts)
    if copies and dice.random() < 0.5:
        step, destination = dice.choice(copies)
        attempt = world.attempts[step, destination]
        if dice.random() < 0.05:
            world.copies_at(step, destination, None)
            world.send(mg.CopyFailed(step, destination, "disk full", True, attempt))
        else:
            epoch = Epoch(world.recorded - dice.choice([0, 0, 1, 2]))
            world.copies_at(step, destination, epoch)
            world.send(mg.CopyAt(step, destination, epoch, attempt))
            world.send(mg.RoundReported())
    elif dice.random() < 0.1:
        often: tuple[mg.Event, ...] = (
            mg.Started(),
            mg.Paced(any_limits(dice)),
            mg.WorkersWarm(frozenset(world.wanted_warm)),
        )
        world.send(dice.choice(often))
    elif world.running_route is None:
        world.epoch_starts()
    elif dice.random() < 0.8:
        world.epoch_recorded()
    else:
        world.epoch_abandoned()


def any_plan(dice: random.Random, start: Route, target: Route) -> mg.MigrationPlan:
    """Some plan from one route to the other."""
    schedule = cut(start.moves_to(target.owners), dice.choice(list(Strategy)), dice.randint(1, 3))
    cold = frozenset(Worker(w) for w in range(WORKERS) if dice.random() < 0.3)
    return mg.MigrationPlan(schedule, cold, pre_copy=dice.random() < 0.8)


@pytest.mark.parametrize("seed", range(120))
def test_long_lives_keep_every_promise(seed: int) -> None:
    """Over hundreds of events and several migrations, each cancelled, without a worker, or undisturbed, every one ends (I6)
    within its limits (I7); the next begins where the last one ended, while the copies of that one are still kept."""
    dice = random.Random(seed)
    start, *targets = (Route(np.array([dice.randrange(WORKERS) for _ in range(BINS)])) for _ in range(4))
    world = World(start, mg.begin(any_plan(dice, start, targets[0]), any_limits(dice), FIRST_EPOCH))
    for target in targets:
        start = world.route
        if target is not targets[0]:
            world.lost.clear()
            world.goes_on_with(any_plan(dice, start, target), any_limits(dice))
        world.send(mg.Started())
        world.send(mg.WorkersWarm(frozenset(world.wanted_warm)))
        patience = dice.randrange(150)
        while not world.state.ended or world.running_route is not None:
            happen(world, dice)
            promises_are_kept(world, start, target)
            patience -= 1
            if patience == 0 and dice.random() < 0.4:
                world.worker_lost(Worker(dice.randrange(WORKERS)))
            elif patience < 0:
                world.send(mg.Cancel("enough"))
    must_end(world, target)
