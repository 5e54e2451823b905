"""`binshift run --autoscale`: requests scales and rebalances by the measured load, as a user does with `binshift scale` and `rebalance`.

A scale that a user requests holds until the load needs another one.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from binshift.autoscale import Autoscaler, Decision
from binshift.control.models import Dataflow, State
from binshift.control.requests import RebalanceRequest
from binshift.errors import BinshiftError
from binshift.hosting.client import ControlClient
from binshift.hosting.local.directory import RunDirectory
from binshift.load import load_of_answer
from binshift.local import WORKERS_MAX
from binshift.settings import resolve
from binshift.worker_need import LATENCY_TARGET_SECONDS, Policy

log = logging.getLogger(__name__)

MAX_EPOCH_CONF: Final = "spark.binshift.maxEpoch"
EPOCHS_PER_TARGET: Final = 2.0
"""The default bound of an epoch, in latency targets: without one, a backlog is one epoch in which nothing can move."""
PERIOD_SECONDS: Final = 1.0


@dataclass
class Autoscaling:
    """Scales one run.

    Attributes:
        autoscaler: decides.
        directory: takes the desired scale.
        control: the control API, which takes rebalances; None before the program has one.
    """

    autoscaler: Autoscaler
    directory: RunDirectory
    control: Callable[[], ControlClient | None]
    _decided_at: float = 0.0

    def step(self, seen: Dataflow) -> Decision | None:
        """Decide by the newest observation; the decision if the number of workers changes or bins are to move, else None."""
        if seen.state is not State.RUNNING or seen.load is None or seen.load.at - self._decided_at < PERIOD_SECONDS:
            return None
        self._decided_at = seen.load.at
        wanted, target = self.directory.desired_scale, seen.target
        settled = target is not None and target.settled and len(target.workers) == wanted.count
        decision = self.autoscaler.decide(
            load_of_answer(seen.load.model_dump(by_alias=True)), wanted.count, settled=settled
        )
        if decision.rebalance:
            return decision if self._rebalance() else None
        if decision.workers == wanted.count:
            return None
        self.directory.request(decision.workers)
        return decision

    def _rebalance(self) -> bool:
        """Request a rebalance; False if that was not possible: then workers are added instead, if the load still needs it."""
        control = self.control()
        try:
            return control is not None and control.rebalance(RebalanceRequest()) is not None
        except BinshiftError as error:
            log.warning("the bins are not shared by load: %s", error)
            return False


def worker_range(text: str) -> tuple[int, int]:
    """A type of argument: the least and the largest number of workers.

    >>> worker_range("1:8")
    (1, 8)
    """
    least, colon, most = text.partition(":")
    if not colon or not (least.isascii() and least.isdigit() and most.isascii() and most.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of workers, such as 1:8")
    if not 1 <= int(least) <= int(most) <= WORKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range within 1 to {WORKERS_MAX} workers")
    return int(least), int(most)


def policy_of(workers: tuple[int, int], conf: Mapping[str, str]) -> Policy:
    """The policy for a run with that Spark conf.

    Raises:
        InvalidSettings: a setting of the conf is wrong.
    """
    return Policy(*workers, latency_target=_latency_target(conf))


def bounded(conf: Mapping[str, str]) -> dict[str, str]:
    """The conf with a bound of the epochs; its own if it has one."""
    if resolve(conf).max_epoch is not None:
        return dict(conf)
    return {**conf, MAX_EPOCH_CONF: f"{EPOCHS_PER_TARGET * _latency_target(conf)}s"}


def _latency_target(conf: Mapping[str, str]) -> float:
    return resolve(conf).latency_target_seconds or LATENCY_TARGET_SECONDS
