"""What `binshift run --autoscale` reads of the control API, and of the conf of its program."""

from __future__ import annotations

import argparse

import pytest

from binshift.control.load_answers import load_shown
from binshift.epoch_costs import EpochCost
from binshift.hosting.local.autoscaling import MAX_EPOCH_CONF, bounded, policy_of, worker_range
from binshift.load import Load, load_of_answer

TARGET = "spark.binshift.latencyTargetSeconds"


@pytest.mark.parametrize(
    "load",
    [
        Load(1.5, EpochCost(0.1, 2e-5, certain=False), 9, 100.0, 7, 50, at_bound=True, epoch_seconds=0.4, workers=3),
        Load(1.5, None, 0, None, None, None, at_bound=False, epoch_seconds=None, workers=1),
    ],
    ids=["measured", "unknown"],
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
