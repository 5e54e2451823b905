"""The slow, simple caller of one migration, for simulations.

`World` carries out every action on plain dictionaries and checks at that moment that the action was allowed. The order of
events is the caller's choice: Hypothesis, or a walk with a seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from binshift import migration as mg
from binshift.model import Bin, Epoch, Moves, Worker
from binshift.routing import Route

FIRST_EPOCH = Epoch(7)
"""The newest recorded epoch when the migration begins."""
GOOD_ROUNDS_MAX = 400


@dataclass
class World:
    """Stores, routes and epochs around one migration, and their restrictions."""

    route: Route
    state: mg.MigrationState
    recorded: Epoch = FIRST_EPOCH
    running_route: Route | None = None
    flips: bool = False
    """Whether the running route differs from the previous one."""
    wanted_warm: set[Worker] = field(default_factory=set)
    lost: set[Worker] = field(default_factory=set)
    attempts: dict[tuple[mg.StepNumber, Worker], int] = field(default_factory=dict)
    copies: dict[tuple[Worker, Bin], Epoch | None] = field(default_factory=dict)
    """Copies ordered on their destinations, neither flipped nor dropped, and their epochs."""
    kept: dict[tuple[Worker, Bin], Epoch] = field(default_factory=dict)
    """Copies that sources keep of bins that they gave away, and the epochs of the flips."""
    moved: set[Bin] = field(default_factory=set)
    last_flip: Epoch | None = None

    def send(self, event: mg.Event) -> None:
        """Report an event and carry out the actions."""
        before = self.state
        self.state, actions = mg.advance(before, event)
        assert not (before.ended and actions), "an ended migration returns no actions"
        assert not self.state.ended or not self.state.kept or self.lost, "only a lost worker cuts the end short"
        for action in actions:
            self.carry_out(action)

    def carry_out(self, action: mg.Action) -> None:
        """Carry it out, if it is allowed."""
        match action:
            case mg.Warm(workers):
                self.wanted_warm |= workers
            case mg.Copy():
                self.start_copy(action)
            case mg.Flip(epoch, steps, moves):
                assert list(moves) == [move for step in steps for move in self.state.plan.moves(step)]
                self.flip(epoch, len(steps), moves)
            case mg.Retire(worker, bins):
                assert worker not in self.lost
                for bin_ in bins:
                    assert self.recorded >= self.kept.pop((worker, bin_)) + 1, "a replay might still need it"
            case mg.DropCopies(worker, bins):
                assert worker not in self.lost
                for bin_ in bins:
                    del self.copies[worker, bin_]
                    flipping = (self.running_route or self.route).owner(bin_)
                    assert flipping == self.route.owner(bin_), "a running epoch needs this copy"
            case _:
                assert_never(action)

    def start_copy(self, copy: mg.Copy) -> None:
        plan, now = self.state.plan, self.state.limits
        assert plan.pre_copy
        assert copy.bins == plan.moves(copy.step).bins_to(copy.destination)
        assert copy.destination not in plan.cold - self.state.warm, "a cold worker was sent a bin"
        key = (copy.step, copy.destination)
        assert copy.attempt == self.attempts.get(key, -1) + 1 <= now.copy_retries_max
        self.attempts[key] = copy.attempt
        for bin_ in copy.bins:
            self.kept.pop((copy.destination, bin_), None)
            self.copies[copy.destination, bin_] = None
        held = [plan.moves(s.step) for s in self.state.inflight]
        if copy.attempt == 0 and len(held) > 1:
            assert len(held) <= now.steps_inflight_max
            assert sum(map(len, held)) <= now.copy_bins_inflight_max
            assert sum(map(plan.bytes_of, held)) <= now.copy_bytes_inflight_max

    def flip(self, epoch: Epoch, steps: int, moves: Moves) -> None:
        now = self.state.limits
        assert epoch == self.recorded + 1
        assert not set(moves.bin_set()) & self.moved, "a bin moves twice"
        assert steps == 1 or len(moves) <= now.flip_bins_per_epoch_max
        assert steps <= now.flips_per_epoch_max
        assert self.last_flip is None or epoch - self.last_flip > now.gap_epochs
        assert not self.lost & set(moves.destinations.tolist())
        for move in moves if self.state.plan.pre_copy else ():
            there = self.copies[move.destination, move.bin]
            assert there is not None
            assert there >= epoch - 1 - self.state.flip_deltas, "a flip before its copy was ready"
        self.running_route, self.flips = self.route.moved(moves), True

    def epoch_starts(self) -> None:
        """The driver fixes the next route."""
        self.running_route, self.flips = self.route, False
        self.send(mg.EpochStarting(Epoch(self.recorded + 1)))

    def epoch_recorded(self) -> None:
        """The record exists: new owners have their bins, old owners keep a copy."""
        assert self.running_route is not None
        self.recorded = Epoch(self.recorded + 1)
        for move in self.route.moves_to(self.running_route.owners):
            self.copies.pop((move.destination, move.bin), None)
            self.kept.pop((move.destination, move.bin), None)
            self.moved.add(move.bin)
            if move.source not in self.lost:
                self.kept[move.source, move.bin] = self.recorded
        if self.flips:
            self.last_flip = self.recorded
        self.route, self.running_route = self.running_route, None
        self.send(mg.EpochRecorded(self.recorded))

    def epoch_abandoned(self) -> None:
        """The run does not count."""
        self.running_route = None
        self.send(mg.EpochAbandoned(Epoch(self.recorded + 1)))

    def copies_at(self, step: mg.StepNumber, destination: Worker, epoch: Epoch | None) -> None:
        """The bins of a step on one destination reach ``epoch``, or (None) are lost."""
        for bin_ in self.state.plan.moves(step).bins_to(destination):
            if (destination, bin_) in self.copies:
                there = self.copies[destination, bin_]
                further = epoch is None or there is None or epoch > there
                self.copies[destination, bin_] = epoch if further else there

    def worker_lost(self, worker: Worker) -> None:
        """A worker is lost, with everything it held."""
        self.lost.add(worker)
        self.copies = {key: epoch for key, epoch in self.copies.items() if key[0] != worker}
        self.kept = {key: epoch for key, epoch in self.kept.items() if key[0] != worker}
        self.send(mg.WorkerLost(worker))

    def goes_on_with(self, plan: mg.MigrationPlan, limits: mg.Limits) -> None:
        """Another migration takes over from the recorded route."""
        assert self.state.ended
        assert self.running_route is None
        self.state = mg.begin(plan, limits, self.recorded, self.state.kept)
        self.attempts, self.moved, self.last_flip = {}, set(), None

    def turn_good(self) -> None:
        """From now on everything succeeds, and epochs run only when the migration wants one."""
        if self.running_route is not None:
            self.epoch_recorded()
        self.send(mg.Started())
        for _ in range(GOOD_ROUNDS_MAX):
            self.send(mg.WorkersWarm(frozenset(self.wanted_warm)))
            for (step, destination), attempt in list(self.attempts.items()):
                self.copies_at(step, destination, self.recorded)
                self.send(mg.CopyAt(step, destination, self.recorded, attempt))
            self.send(mg.RoundReported())
            if self.state.ended:
                return
            assert mg.wants_epoch(self.state), f"this migration cannot end: {self.state}"
            self.epoch_starts()
            self.epoch_recorded()
        raise AssertionError(f"no end in sight: {self.state}")
