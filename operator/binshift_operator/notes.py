"""What one process of the operator remembers of a dataflow between two looks: what cannot be seen by looking.

How a child was last applied, which write fails time and again, since when a StatefulSet lacks pods, that a control API kept a
thread waiting, of what the Secrets were that pods were made with; what the newest look at everything saw. It is lost without harm: a new process finds out anew, some seconds later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from binshift_operator.model.names import Child
from binshift_operator.model.observed import Tried
from binshift_operator.remembered import Remembered

TRIES_BEFORE_TOLD: Final = 5
"""Times in a row that a write fails before a person is told, unless it was refused for what it says."""
SILENT_SECONDS: Final = 15.0
"""How long after a try a control API is left alone that did not answer in time: each try holds one of a few threads."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A write that fails: what was to be done, how often in a row it failed, why, and whether that is to be told at once."""

    what: str
    times: int
    why: str
    at_once: bool


@dataclass(frozen=True, slots=True)
class Silence:
    """A driver's pod whose control API did not answer in time: its UID, what came of it, and until when it is left alone."""

    pod: str
    why: str
    until: float


@dataclass
class Notes:
    """Of one dataflow, told from another of its name by the UID."""

    uid: str
    applied: dict[Child, Tried] = field(default_factory=dict)
    lacking: dict[Child, float] = field(default_factory=dict)
    restarted: dict[Child, str] = field(default_factory=dict)
    failing: Failing | None = None
    silence: Silence | None = None
    remembered: Remembered | None = None
    inputs_hash: str = ""

    def failed(self, what: str, why: str, *, at_once: bool) -> None:
        """A write has failed."""
        last = self.failing
        times = last.times + 1 if last is not None and last.what == what else 1
        self.failing = Failing(what, times, why, at_once)

    @property
    def refusals(self) -> Mapping[str, str]:
        """What a person should know of: which write does not come about, and why."""
        failing = self.failing
        if failing is None or not (failing.at_once or failing.times >= TRIES_BEFORE_TOLD):
            return {}
        return {failing.what: failing.why if failing.at_once else f"{failing.why} (tried {failing.times} times)"}

    def lacks(self, child: Child, lacking: bool, now: float) -> float | None:
        """Since when a StatefulSet lacks pods; None if it does not."""
        if not lacking:
            self.lacking.pop(child, None)
            return None
        return self.lacking.setdefault(child, now)
