"""Whether driver, pods and operator are of one version of binshift, and which are not.

Nothing is decided by it. A pod keeps the template that it was made from, so that after an upgrade of the operator one that is lost
comes back beside others of an older template; and what the driver runs is in the user's image, which nobody but the user builds anew.
"""

from __future__ import annotations

from binshift_operator.model.observed import ObservedState
from binshift_operator.phases.judged import Judged

OLDER = "an older one"
"""What does not say its version."""


def judged(observed: ObservedState) -> Judged:
    """The condition UpdatePending."""
    operator = observed.operator_version
    driver = operator if observed.runtime is None else observed.runtime.version
    pods = {pod.operator_version for pod in observed.pods if pod.deleting_since is None}
    if driver != operator:
        return Judged(
            True,
            "DriverVersion",
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
