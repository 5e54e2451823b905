"""What a look at everything saw of a dataflow at rest, and whether that may stand for reading it once more.

Most objects of a dataflow never change. While it rests, only the resource, its pods and the runtime are read at every look; of the other
objects it is assumed that they are as they were. That may be wrong, so nothing is ever done by it: it may only confirm that all is at
rest, and whatever else comes of it is looked at in full, and decided anew. It ends with an edit, with any event about the dataflow or its
children, with any action and, as events get lost, in time for the resync.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from binshift_operator.model.observed import ClaimState, ObservedState
from binshift_operator.model.specification import Dataflow


@dataclass(frozen=True, slots=True)
class Remembered:
    """One look at everything.

    Attributes:
        generation: of the dataflow that was looked at.
        world: what was seen; its ``now`` is when the look began.
        token: opens the control API; None if there was none. Where that is, is asked anew: an address may be another pod's by now.
        inputs_hash: see `Dataflow`.
    """

    generation: int
    observed: ObservedState
    token: str | None = field(repr=False)
    inputs_hash: str = ""

    def stands(self, dataflow: Dataflow, now: float, seconds_max: float) -> bool:
        """Whether it may stand for reading again: it is of the same edit, and younger than so many seconds."""
        return self.generation == dataflow.generation and 0.0 <= now - self.observed.now < seconds_max

    def has_the_pods_of(self, observed: ObservedState) -> bool:
        """Whether there are the same pods as then."""
        return {pod.uid for pod in self.observed.pods} == {pod.uid for pod in observed.pods}


def remembered(dataflow: Dataflow, observed: ObservedState, token: str | None) -> Remembered | None:
    """What to remember of a look that found nothing to do; None if something is wrong that a person may put right any moment."""
    wrong = (
        observed.claim is not ClaimState.FINE
        or observed.credentials_missing
        or observed.render_error
        or observed.lacking
        or observed.rivals
    )
    return None if wrong else Remembered(dataflow.generation, observed, token, dataflow.inputs_hash)
