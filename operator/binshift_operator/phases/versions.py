"""Whether driver, pods and operator are of one version of binshift, and which are not.

Nothing is decided by it. A pod keeps the template that it was made from, so that after an upgrade of the operator one that is lost
comes back beside others of an older template; and what the driver runs is in the user's image, which nobody but the user builds anew.
"""

from __future__ import annotations

from binshift_operator.model.status import ConditionType, Status
from binshift_operator.model.world import World
from binshift_operator.phases.judged import Judged

OLDER = "an older one"
"""What does not say its version."""
DRIVER = "DriverVersion"


def judged(world: World, before: Status) -> Judged:
    """The condition UpdatePending."""
    operator, driver = world.operator_version, _of_driver(world, before)
    pods = {pod.operator_version for pod in world.pods if pod.going_since is None}
    if driver != operator:
        return Judged(
            True,
            DRIVER,
            f"the operator is of binshift {operator}, the driver of {driver or OLDER}: build the image from the spark image of {operator}",
        )
    if pods - {operator}:
        made = ", ".join(sorted(each or OLDER for each in pods))
        return Judged(
            True,
            "PodVersions",
            f"the operator is of binshift {operator}, the templates of pods are of {made}: raise restartNonce when it suits",
        )
    return Judged(False, "OneVersion", f"operator, driver and pods are of binshift {operator}")


def _of_driver(world: World, before: Status) -> str:
    """What the driver says or, while it is silent, what it said last; an older one never says anything."""
    if world.runtime is not None:
        return world.runtime.version
    last = before.condition(ConditionType.UPDATE_PENDING)
    nameless = last is not None and last.reason == DRIVER
    return before.version if before.version or nameless else world.operator_version
