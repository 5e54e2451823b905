"""The result of one row of the decision."""

from __future__ import annotations

from dataclasses import dataclass

from binshift_operator.model.actions import Action
from binshift_operator.status import Explanation


@dataclass(frozen=True, slots=True)
class Step(Explanation):
    """Actions, in order, and their explanation."""

    actions: tuple[Action, ...] = ()
