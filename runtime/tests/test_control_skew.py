"""The skew of the workers in the control API, on a simulated cluster with the real engine and tasks: measured, and lowered by a rebalance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from control_simulated import BINS, World
from test_control_hot_keys import counted_epoch

from binshift.autoscale import Autoscaler
from binshift.control.requests import RebalanceRequest, TargetRequest
from binshift.control.skew_figures import SkewFigures
from binshift.engine.bin_records import RECORDS_MIN
from binshift.epoch_costs import EpochCost
from binshift.hosting.local.autoscaling import Autoscaling
from binshift.hosting.local.directory import create_run
from binshift.load import Load
from binshift.model import Bin
from binshift.skew import Skew
from binshift.worker_need import Policy
from simulator import Row
from simulator.flows import bin_of


def key_of(bin: Bin) -> str:
    """A key in a bin."""
    return next(key for key in map("k{}".format, range(10_000)) if bin_of((key,), BINS) == bin)


def uneven(world: World) -> list[Row]:
    """Rows of which each bin of the first worker gets three times as many as any other."""
    route = world.query.route
    first = route.workers[0]
    parts = {Bin(b): 3 if route.owner(Bin(b)) == first else 1 for b in range(BINS)}
    share = 2 * RECORDS_MIN // sum(parts.values())
    keys = [key_of(bin) for bin, part in parts.items() for _ in range(part * share)]
    return [{"key": key, "value": 1, "time": 0} for key in keys]


def skew(world: World) -> Skew | None:
    """As a decision reads it."""
    return SkewFigures(world.query.dataflow.targets).newest()


def test_skew_is_measured_and_rebalanced() -> None:
    """It is unknown at first, then that of the counted records; a rebalance reaches what was announced."""
    world = World()
    assert skew(world) is None
    counted_epoch(world, uneven(world))
    before = skew(world)
    assert before is not None
    workers = len(world.query.route.workers)
    assert abs(before.now - 3 * workers / (workers + 2)) < 0.01
    assert before.balanced < before.now
    world.service.rebalance(RebalanceRequest())
    world.settle()
    after = skew(world)
    assert after is not None
    assert after.now == after.balanced == before.balanced
    assert after.relief == 1.0


def test_rows_that_are_filtered_are_even() -> None:
    """Of a tenth of the rows, only that tenth is uneven."""
    world = World()
    counted_epoch(world, uneven(world))
    figures = SkewFigures(world.query.dataflow.targets)
    whole, tenth = figures.newest(), figures.newest(0.1)
    assert whole is not None
    assert tenth is not None
    assert abs(tenth.now - (1 + 0.1 * (whole.now - 1))) < 1e-9


def test_autoscaling_rebalances_first(tmp_path: Path) -> None:
    """With the real engine: bins move between the present workers, and afterwards the same rows are even."""
    world = World()
    facts = {"owner": "local", "generation": 1, "workers": [0, 1]}
    world.service.put_target(TargetRequest.model_validate(facts))
    world.settle()
    counted_epoch(world, uneven(world))
    busy = Load(0.0, EpochCost(0.1, 0.2), 99, 8.0, 0, None, at_bound=False, epoch_seconds=2.0, workers=2)
    world.query.load = lambda now: replace(busy, at=now)  # type: ignore[method-assign]
    control: Any = SimpleNamespace(rebalance=world.service.rebalance)
    with create_run(tmp_path / "app.py", "token", tmp_path, 2, {"XDG_RUNTIME_DIR": str(tmp_path)}) as run:
        scaling = Autoscaling(Autoscaler(Policy(1, 4)), run, lambda: control)
        before = skew(world)
        decision = scaling.step(world.service.snapshot())
        assert decision is not None
        assert decision.rebalance
        world.settle()
        assert run.desired_scale.count == 2
    after = skew(world)
    assert before is not None
    assert after is not None
    assert after.now == before.balanced
    assert world.query.route.workers == (0, 1)


def test_it_is_in_the_answer() -> None:
    """Both figures, for the operator and `binshift run`."""
    world = World()
    counted_epoch(world, uneven(world))
    load, found = world.service.snapshot().load, skew(world)
    assert load is not None
    assert found is not None
    assert (load.skew, load.skew_rebalanced) == (found.now, found.balanced)
