"""A run of the fixed history with one fault at one effect, and its outcome as text: a test tries many of them."""

from __future__ import annotations

import traceback

from oracle_fixed import STAND_STILL, fixed

from simulator import Fault, Meanwhile, SimulatedCluster, at


def take_over(cluster: SimulatedCluster) -> None:
    """Another driver starts and finishes what is pending."""
    cluster.take_over()
    cluster.finish()


FAULTS: dict[str, Fault | Meanwhile] = {
    "kill": Fault.KILL,
    "refuse": Fault.REFUSE,
    "lose": Fault.LOSE,
    "take over": STAND_STILL,
}


def fixed_fate(number: int, kind: str) -> str:
    """The outcome of the fixed history with this fault at that effect: empty if it is correct."""
    try:
        cluster = fixed(at({number: FAULTS[kind]}), meanwhile=take_over)
    except BaseException:
        # Also exceptions that are not errors: the history must end by itself, and the outcome must be returned.
        return f"{kind} at effect {number}: {traceback.format_exc()}"
    struck = cluster.world.faults.struck
    return "" if len(struck) == 1 else f"{kind} at effect {number} struck {struck}"
