"""`spec.autoscaling` and `status.autoscaling`: whether and how the number of executors follows the load, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from binshift.errors import InvalidSettings
from binshift.worker_need import Policy
from binshift_operator.model.quantities import seconds_of
from binshift_operator.model.reasons import ScalingReason


class Mode(StrEnum):
    """What is done about the load."""

    OFF = "Off"
    RECOMMEND = "Recommend"
    """The status has the number that the load needs; ``spec.replicas`` stays in force."""
    AUTO = "Auto"
    """The number that the load needs is in force."""


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """Autoscaling that is not off.

    Attributes:
        mode: `Mode.RECOMMEND` or `Mode.AUTO`.
        policy: what is aimed at; of `binshift.autoscale`.
    """

    mode: Mode
    policy: Policy

    def within(self, replicas: int) -> int:
        """The number of the range that is next to another one."""
        return min(max(replicas, self.policy.least), self.policy.most)


@dataclass(frozen=True, slots=True)
class Scale:
    """A change of the number of executors by autoscaling: from, to, when (seconds since 1970) and why, with the figures."""

    before: int
    after: int
    at: float
    message: str


@dataclass(frozen=True, slots=True)
class AutoscalingStatus:
    """What autoscaling has decided.

    Attributes:
        replicas: of the spec, when that was decided.
        desired: number of executors in force.
        reason: why, and ``message`` with the figures.
        recommended: number that the load needs now, without regard to the past; None before that is known.
        limited: why there are fewer executors than the load needs; None: there are enough.
        last_scale: the newest change; None before the first.
    """

    replicas: int
    desired: int
    reason: ScalingReason
    message: str
    recommended: int | None = None
    limited: ScalingReason | None = None
    last_scale: Scale | None = None


def parse_autoscaling(given: Mapping[str, Any], latency_target: float | None) -> Autoscaling | None:
    """The section of a spec; None: it is off. ``latency_target``: where it has none of its own, in seconds; None: the usual one.

    Raises:
        ValueError: it is invalid.
    """
    mode = Mode(given.get("mode", Mode.OFF))
    if mode is Mode.OFF:
        return None
    if "maxReplicas" not in given:
        raise ValueError("autoscaling needs maxReplicas: how many executors it can start")
    down = given.get("scaleDown") or {}
    usual = Policy(1, 1)
    try:
        policy = Policy(
            least=int(given.get("minReplicas", usual.least)),
            most=int(given["maxReplicas"]),
            latency_target=seconds_of(given, "latencyTarget", latency_target or usual.latency_target),
            utilization=int(given.get("utilization", 100 * usual.utilization)) / 100,
            catch_up_seconds=seconds_of(given, "catchUp", usual.catch_up_seconds),
            stabilization_seconds=seconds_of(down, "stabilization", usual.stabilization_seconds),
            down_share=int(down.get("maxPercent", 100 * usual.down_share)) / 100,
        )
    except InvalidSettings as error:
        raise ValueError(f"autoscaling: {error}") from error
    return Autoscaling(mode, policy)
