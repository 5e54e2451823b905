"""The body of ``POST /v1/rebalance``: how the bins move, and nothing of where; that is measured."""

from __future__ import annotations

from pydantic import Field

from binshift.control.models import BatchSize, Body, StrategyName


class RebalanceRequest(Body):
    """Share the bins by their load as it is now. What is left out is as the target has it, and it holds for this once."""

    strategy: StrategyName | None = Field(default=None, description="How the plan is cut into steps.")
    batch_size: BatchSize | None = Field(default=None, description="Bins a step, for Batched and Optimized.")
    pre_copy: bool | None = Field(default=None, description="Whether bins are copied ahead of their flips.")
