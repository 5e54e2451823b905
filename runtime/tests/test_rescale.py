"""The rescale decision, row by row, and in simulated worlds: always the desired end, never a worker stopped with bins."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from binshift.errors import MigrationRefused
from binshift.model import Worker
from binshift.rescale import (
    Action,
    Awaiting,
    Desired,
    Observed,
    PutTarget,
    Runtime,
    StartWorkers,
    StopWorkers,
    Target,
    Wait,
    Workers,
    decide,
    lowest,
)


def slots(*numbers: int) -> Workers:
    """A set of workers."""
    return frozenset(map(Worker, numbers))


def target(generation: int, *numbers: int, owner: str = "me") -> Target:
    """A target over these workers."""
    return Target(owner, generation, slots(*numbers))


CALM = Runtime(target(1, 0, 1), registered=slots(0, 1), holding=slots(0, 1), settled=True, held_epochs=5)
"""Two workers, idle."""
SHRUNK = replace(CALM, target=target(2, 0), holding=slots(0))
"""The same after generation 2 requested one worker, and its bins have moved."""
GROWING = replace(CALM, registered=slots(0, 1, 2), holding=slots(0, 1))

ROWS: dict[str, tuple[set[int], Runtime | None, Desired, list[Action]]] = {
    "idle": ({0, 1}, CALM, Desired("me", 1, lowest(2)), []),
    "first target": ({0, 1}, replace(CALM, target=None), Desired("me", 1, lowest(2)), [PutTarget(target(1, 0, 1))]),
    "first target, not all registered": (
        {0, 1},
        replace(CALM, target=None, registered=slots(0)),
        Desired("me", 1, lowest(2)),
        [Wait(Awaiting.REGISTRATION, slots(1))],
    ),
    "grow: start": (
        {0, 1},
        CALM,
        Desired("me", 2, lowest(3)),
        [StartWorkers(slots(2)), Wait(Awaiting.REGISTRATION, slots(2))],
    ),
    "grow: started": ({0, 1, 2}, CALM, Desired("me", 2, lowest(3)), [Wait(Awaiting.REGISTRATION, slots(2))]),
    "grow: registered": ({0, 1, 2}, GROWING, Desired("me", 2, lowest(3)), [PutTarget(target(2, 0, 1, 2))]),
    "grow: an old worker is away": (
        {0, 1, 2},
        replace(GROWING, registered=slots(0, 2)),
        Desired("me", 2, lowest(3)),
        [PutTarget(target(2, 0, 1, 2))],
    ),
    "shrink: put": ({0, 1}, CALM, Desired("me", 2, lowest(1)), [PutTarget(target(2, 0))]),
    "shrink: moving": ({0, 1}, replace(SHRUNK, settled=False), Desired("me", 2, lowest(1)), [Wait(Awaiting.MIGRATION)]),
    "shrink: just settled": (
        {0, 1},
        replace(SHRUNK, held_epochs=0),
        Desired("me", 2, lowest(1)),
        [Wait(Awaiting.HOLD, slots(1))],
    ),
    "shrink: bins left": (
        {0, 1},
        replace(SHRUNK, holding=slots(0, 1)),
        Desired("me", 2, lowest(1)),
        [Wait(Awaiting.BINS, slots(1))],
    ),
    "shrink: done": ({0, 1}, SHRUNK, Desired("me", 2, lowest(1)), [StopWorkers(slots(1))]),
    "same workers, newer generation": ({0, 1}, CALM, Desired("me", 2, lowest(2)), [PutTarget(target(2, 0, 1))]),
    "edit in the middle of shrinking": (
        {0, 1},
        replace(SHRUNK, settled=False),
        Desired("me", 3, lowest(2)),
        [PutTarget(target(3, 0, 1))],
    ),
    "edit back before the target of the growth was put": (
        {0, 1, 2},
        CALM,
        Desired("me", 3, lowest(2)),
        [PutTarget(target(3, 0, 1))],
    ),
    "process died": ({0}, CALM, Desired("me", 1, lowest(2)), [StartWorkers(slots(1))]),
    "leaver with bins died": (
        {0},
        replace(SHRUNK, settled=False, holding=slots(0, 1)),
        Desired("me", 2, lowest(1)),
        [StartWorkers(slots(1)), Wait(Awaiting.MIGRATION)],
    ),
    "a gap: put without the slot that cannot come": (
        {0, 1, 2, 3},
        replace(CALM, registered=slots(0, 1, 3)),
        Desired("me", 2, slots(0, 1, 3), spare=slots(2)),
        [PutTarget(target(2, 0, 1, 3))],
    ),
    "a gap: the spare process is neither stopped nor waited for": (
        {0, 1, 2, 3},
        replace(CALM, target=target(2, 0, 1, 3), registered=slots(0, 1, 3), holding=slots(0, 1, 3)),
        Desired("me", 2, slots(0, 1, 3), spare=slots(2)),
        [],
    ),
    "a gap: the spare process is started": (
        {0, 1},
        replace(CALM, registered=slots(0, 1)),
        Desired("me", 1, slots(0, 1), spare=slots(2)),
        [StartWorkers(slots(2))],
    ),
    "a gap, and shrinking: only what is above goes": (
        {0, 1, 2, 3, 4, 5},
        replace(CALM, target=target(3, 0, 1, 3), registered=slots(0, 1, 3, 4, 5), holding=slots(0, 1, 3)),
        Desired("me", 3, slots(0, 1, 3), spare=slots(2)),
        [StopWorkers(slots(4, 5))],
    ),
    "runtime away": ({0, 1, 2}, None, Desired("me", 2, lowest(1)), [Wait(Awaiting.RUNTIME)]),
    "nothing exists yet": (
        set(),
        None,
        Desired("me", 1, lowest(2)),
        [StartWorkers(slots(0, 1)), Wait(Awaiting.RUNTIME)],
    ),
    "another owner": ({0, 1}, CALM, Desired("you", 9, lowest(1)), [Wait(Awaiting.OTHER_OWNER)]),
    "another owner, to be started": ({0, 1}, CALM, Desired("you", 9, lowest(3)), [Wait(Awaiting.OTHER_OWNER)]),
    "another owner replaced": (
        {0, 1},
        CALM,
        Desired("you", 1, lowest(1), takes_over=True),
        [PutTarget(target(1, 0, owner="you"))],
    ),
    "stale desire": ({0, 1}, CALM, Desired("me", 0, lowest(3)), [Wait(Awaiting.GENERATION)]),
    "one generation, two meanings": ({0, 1}, CALM, Desired("me", 1, lowest(3)), [Wait(Awaiting.GENERATION)]),
}


@pytest.mark.parametrize("name", ROWS)
def test_row(name: str) -> None:
    """Each situation of the table gives exactly its actions."""
    processes, runtime, desired, expected = ROWS[name]
    assert list(decide(Observed(slots(*processes), runtime), desired)) == expected


def test_no_workers_is_refused() -> None:
    """Bins need an owner; stopping everything is not a rescale."""
    with pytest.raises(MigrationRefused, match="0 workers"):
        Desired("me", 1, lowest(0))


def some(dice: random.Random, owner: str, generation: int) -> Desired:
    """Any workers among the lowest slots, with the remaining slots as spare ones."""
    most = lowest(dice.randint(1, 5))
    workers = frozenset(dice.sample(sorted(most), dice.randint(1, len(most))))
    return Desired(owner, generation, workers, spare=most - workers, takes_over=True)


@dataclass
class World:
    """Processes, executors and a runtime, each slow, and each able to fail at any moment."""

    dice: random.Random
    processes: set[Worker] = field(default_factory=set)
    registered: set[Worker] = field(default_factory=set)
    target: Target | None = None
    route: dict[int, Worker] = field(default_factory=dict)
    """Bin -> worker; empty until the first target, which assigns the bins."""
    held_epochs: int = 0
    answers: bool = True

    def observe(self) -> Observed:
        """The state that the caller of `decide` observes."""
        settled = self.target is not None and set(self.route.values()) <= self.target.workers
        holding = frozenset(self.route.values())
        held = self.held_epochs if settled else 0
        runtime = Runtime(self.target, frozenset(self.registered), holding, settled, held)
        return Observed(frozenset(self.processes), runtime if self.answers else None)

    def act(self, action: Action) -> None:
        """Carry out an action; twice has the same effect as once."""
        match action:
            case StartWorkers(workers):
                self.processes |= workers
            case PutTarget(wanted):
                self.put(wanted)
            case StopWorkers(workers):
                assert not workers & set(self.route.values()), "a worker that still holds bins was stopped"
                assert self.held_epochs >= 1, "a worker was stopped before its last copies were dropped"
                assert min(workers) > max(self.processes - workers), "only the highest slots can be stopped"
                self.processes -= workers
                self.registered -= workers
            case Wait():
                pass

    def put(self, wanted: Target) -> None:
        """The control API's order: an older generation is rejected, the same one changes nothing."""
        if self.target and self.target.owner == wanted.owner and self.target.generation >= wanted.generation:
            assert self.target == wanted, "an older or different target was put"
            return
        assert wanted.workers <= self.registered | (self.target.workers if self.target else set())
        self.target, self.held_epochs = wanted, 0
        dealt = sorted(wanted.workers)
        self.route = self.route or {bin_: dealt[bin_ % len(dealt)] for bin_ in range(8)}

    def goes_on(self) -> None:
        """A process registers, a bin moves, an epoch is recorded."""
        self.registered |= {w for w in self.processes if self.dice.random() < 0.5}
        if self.target is None:
            return
        leaving = [b for b, w in self.route.items() if w not in self.target.workers]
        there = sorted(self.target.workers & self.registered)
        if leaving and there:
            self.route[self.dice.choice(leaving)] = self.dice.choice(there)
        elif not leaving:
            self.held_epochs += 1

    def fails(self) -> None:
        """A process dies, or the control API does not respond for a while."""
        if self.processes and self.dice.random() < 0.1:
            dead = self.dice.choice(sorted(self.processes))
            self.processes.discard(dead)
            self.registered.discard(dead)
        self.answers = self.dice.random() < 0.8


@pytest.mark.parametrize("seed", range(150))
def test_every_world_reaches_what_is_desired(seed: int) -> None:
    """After failures, repeated and lost actions and edits in the middle, the desired state is reached and does not change."""
    dice = random.Random(seed)
    world, desired = World(dice), some(dice, "me", 1)
    for _ in range(dice.randrange(120)):
        if dice.random() < 0.05:
            owner = desired.owner if dice.random() < 0.8 else f"owner {dice.random()}"
            desired = some(dice, owner, desired.generation + 1)
        observed = world.observe()
        actions = decide(observed, desired)
        assert decide(observed, desired) == actions
        for action in actions[: dice.randint(0, 2)] * dice.randint(1, 2):
            world.act(action)
        world.goes_on()
        world.fails()
    world.answers = True
    for _ in range(200):
        for action in decide(world.observe(), desired):
            world.act(action)
        world.goes_on()
    assert decide(world.observe(), desired) == ()
    assert world.processes == desired.processes
    assert world.target == Target(desired.owner, desired.generation, desired.workers)
    assert set(world.route.values()) <= desired.workers


def test_actions_make_progress() -> None:
    """No decision repeats an action that was carried out: after it, another one is returned, or something is awaited."""
    world = World(random.Random(1))
    desired = Desired("me", 1, lowest(3))
    for generation, count in ((1, 3), (2, 5), (3, 1)):
        desired = Desired("me", generation, lowest(count))
        for _ in range(60):
            orders = [a for a in decide(world.observe(), desired) if not isinstance(a, Wait)]
            for action in orders:
                world.act(action)
            assert not set(orders) & set(decide(world.observe(), desired))
            world.goes_on()
        assert world.processes == desired.workers
