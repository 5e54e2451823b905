"""What `binshift run --autoscale` reads of the control API, and of the conf of its program."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binshift.autoscale import Autoscaler, Decision
from binshift.control.load_answers import load_shown
from binshift.control.models import Dataflow, State, Target
from binshift.epoch_costs import EpochCost
from binshift.errors import MigrationRefused
from binshift.hosting.local.autoscaling import MAX_EPOCH_CONF, Autoscaling, bounded, policy_of, worker_range
from binshift.hosting.local.directory import RunDirectory, create_run
from binshift.load import Hottest, Load, load_of_answer
from binshift.skew import Skew
from binshift.worker_need import Policy

COST = EpochCost(0.1, 2e-5)
SKEWED = Load(
    100.0, COST, 99, 170_000.0, 90_000, None, at_bound=False, epoch_seconds=2.0, workers=4, skew=Skew(1.6, 1.0)
)
"""Too much for four workers of which one is 1.6 times as busy as the mean, and not for four that share the rows."""
TARGET = "spark.binshift.latencyTargetSeconds"


@pytest.mark.parametrize(
    "load",
    [
        Load(1.5, EpochCost(0.1, 2e-5, certain=False), 9, 100.0, 7, 50, at_bound=True, epoch_seconds=0.4, workers=3),
        Load(
            1.5,
            COST,
            9,
            1.0,
            7,
            50,
            at_bound=True,
            epoch_seconds=0.4,
            workers=3,
            hottest=Hottest(0.5, "a"),
            skew=Skew(2.0, 1.5),
        ),
        Load(1.5, None, 0, None, None, None, at_bound=False, epoch_seconds=None, workers=1),
    ],
    ids=["measured", "skewed", "unknown"],
)
def test_a_load_is_the_same_behind_the_api(load: Load) -> None:
    """Nothing that a decision needs is lost on the way."""
    assert load_of_answer(load_shown(load).model_dump(by_alias=True)) == load


def test_epochs_are_bounded_by_default() -> None:
    """At twice the latency target, unless the user has set a bound."""
    assert bounded({TARGET: "0.5"}) == {TARGET: "0.5", MAX_EPOCH_CONF: "1.0s"}
    assert bounded({MAX_EPOCH_CONF: "3s"}) == {MAX_EPOCH_CONF: "3s"}
    assert policy_of((1, 8), {TARGET: "0.5"}).latency_target == 0.5


@pytest.mark.parametrize("wrong", ["3", "0:4", "5:4", "1:100000", "a:b", "1:"])
def test_wrong_ranges_are_rejected(wrong: str) -> None:
    """With what was given."""
    with pytest.raises(argparse.ArgumentTypeError, match=wrong):
        worker_range(wrong)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    """The folder of a run with four workers."""
    with create_run(tmp_path / "app.py", "token", tmp_path, 4, {"XDG_RUNTIME_DIR": str(tmp_path)}) as made:
        yield made


def stepped(run: RunDirectory, rebalance: Callable[[Any], Any], *, at: float) -> Decision | None:
    """A decision for the skewed load; ``rebalance``: what the control API does about a request."""
    control: Any = SimpleNamespace(rebalance=rebalance)
    target = Target(
        owner="local",
        generation=1,
        workers=[0, 1, 2, 3],
        strategy="Fluid",
        batch_size=1,
        pre_copy=True,
        latency_target_seconds=None,
        effective_workers=[0, 1, 2, 3],
        settled=True,
    )
    load = load_shown(SKEWED).model_copy(update={"at": at, "epochs_measured": int(at)})
    scaling = Autoscaling(Autoscaler(Policy(1, 8)), run, lambda: control)
    return scaling.step(Dataflow(state=State.RUNNING, load=load, target=target))


def test_skew_leads_to_a_rebalance(run: RunDirectory) -> None:
    """It is requested of the control API, and the number of workers stays."""
    requested: list[Any] = []

    def accept(wanted: Any) -> Any:
        requested.append(wanted)
        return wanted

    decision = stepped(run, accept, at=100.0)
    assert decision is not None
    assert decision.message.startswith("4 workers share the bins by load: 170,000 rows/s keep 3.4 busy")
    assert len(requested) == 1
    assert run.desired_scale.count == 4


def test_a_rebalance_that_is_refused_changes_nothing(run: RunDirectory) -> None:
    """The run continues."""

    def refuse(wanted: Any) -> Any:
        raise MigrationRefused("no load of a bin has been measured yet")

    assert stepped(run, refuse, at=100.0) is None
    assert run.desired_scale.count == 4
