"""How bins move: the four options of a request, in one value from the query's API to the plan.

Each layer (settings, target, request) overrides the one before with what is given. The value is complete at every layer, so
that nothing below the first one knows a default. It must never hold where bins move: that is the request's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from binshift.errors import MigrationRefused
from binshift.log.records.targets import Target
from binshift.strategies import Strategy


class MigrationOverrides(TypedDict, total=False):
    """Options of a single request; what is left out, or None, is as before.

    Attributes:
        strategy: "AllAtOnce", "Fluid", "Batched" or "Optimized".
        batch_size: bins a step, for Batched and Optimized.
        pre_copy: whether bins are copied ahead of their flips.
    """

    strategy: str | None
    batch_size: int | None
    pre_copy: bool | None


@dataclass(frozen=True, slots=True)
class MigrationOptions:
    """How bins move.

    Attributes:
        strategy: how the plan is cut into steps.
        batch_size: bins a step, for Batched and Optimized.
        pre_copy: whether bins are copied ahead of their flips.
        latency_target_seconds: what pacing aims at; None for the query's setting.
    """

    strategy: Strategy = Strategy.OPTIMIZED
    batch_size: int = 256
    pre_copy: bool = True
    latency_target_seconds: float | None = None

    @classmethod
    def of(cls, target: Target) -> MigrationOptions:
        """Those of a target.

        Raises:
            MigrationRefused: the strategy is unknown.
        """
        latency = target.latency_target_seconds
        return cls(strategy_of(target.strategy), target.batch_size, target.pre_copy, latency)

    def override(
        self,
        strategy: str | None = None,
        batch_size: int | None = None,
        pre_copy: bool | None = None,
        latency_target_seconds: float | None = None,
    ) -> MigrationOptions:
        """The same with what is given; None leaves an option as it is.

        Raises:
            MigrationRefused: the strategy is unknown.
        """
        return MigrationOptions(
            self.strategy if strategy is None else strategy_of(strategy),
            batch_size or self.batch_size,
            self.pre_copy if pre_copy is None else pre_copy,
            self.latency_target_seconds if latency_target_seconds is None else latency_target_seconds,
        )


def strategy_of(name: str) -> Strategy:
    """The strategy of that name, whatever its case.

    >>> strategy_of("optimized").value
    'Optimized'
    """
    for strategy in Strategy:
        if strategy.value.lower() == name.lower():
            return strategy
    raise MigrationRefused(f"there is no strategy {name!r}: choose from {', '.join(s.value for s in Strategy)}")
