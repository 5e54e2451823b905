"""Which driver of a dataflow with a standby becomes the active one, and when.

The drivers know which of them is active (`model.drivers`), so nothing here depends on what the operator has done before:

- A driver is activated only if no other one is known to be active. One that may be, because it does not answer, is first deleted.
- A driver whose pod is being deleted may finish its epoch first; so an eviction interrupts no epoch.
- A driver that is not ready and refuses connections has ended. One that only does not answer may be busy, or its node may be lost: it is
  given a few seconds.

A driver that runs on in spite of this, as on a node that nothing reaches, is fenced by the log (I8): a wrong decision costs time, never rows.
"""

from __future__ import annotations

from dataclasses import replace

from binshift_operator.model.actions import Action, Activate, DeletePod, Step
from binshift_operator.model.drivers import has_standby
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.pods import Pod
from binshift_operator.model.reasons import ProgressingReason
from binshift_operator.model.situation import Situation

ENDED = (RunState.STOPPED, RunState.FINISHED, RunState.FENCED)
"""States of a program that does not wait for an activation."""


def hands_over(situation: Situation) -> bool:
    """Whether the active driver ends because its pod does, so that its query is continued by the standby."""
    driver = situation.observed.driver
    return has_standby(situation.dataflow) and driver is not None and driver.deleting_since is not None


def with_active_driver(situation: Situation, step: Step) -> Step:
    """A step that also sees to it that one driver is the active one."""
    if not has_standby(situation.dataflow):
        return step
    active = _active(situation)
    if active is not None and active.deleting_since is None:
        return replace(step, actions=(*_delete_fenced(situation, active), *step.actions))
    if active is not None and _may_finish(situation, active):
        return _waiting(step, f"pod {active.name} is being deleted and finishes its epoch; then the standby takes over")
    successor = _successor(situation)
    if successor is None:
        return step
    rivals = [pod for pod in situation.observed.drivers if pod is not successor and _may_be_active(situation, pod)]
    if not all(_is_given_up(situation, pod) for pod in rivals):
        return step
    why = _why(situation, successor)
    deletions = tuple(DeletePod(pod.name, pod.uid, why) for pod in rivals if pod.deleting_since is None)
    actions: tuple[Action, ...] = (*deletions, Activate(successor.name, successor.uid, why))
    return _waiting(step, f"pod {successor.name} is being activated{why and ': '}{why}", actions)


def _waiting(step: Step, message: str, actions: tuple[Action, ...] = ()) -> Step:
    return replace(
        step, reason=ProgressingReason.RUNTIME, message=message, realised=False, actions=actions + step.actions
    )


def _active(situation: Situation) -> Pod | None:
    """The pod of the driver that is known to be active."""
    driver = situation.observed.driver
    return driver if driver is not None and situation.observed.report_of(driver).is_active else None


def _delete_fenced(situation: Situation, active: Pod) -> tuple[Action, ...]:
    """Delete a driver from which the active one has taken the checkpoint: its pod comes back as the standby."""
    why = f"pod {active.name} has taken over from it"
    reports = ((pod, situation.observed.report_of(pod)) for pod in situation.observed.drivers if pod is not active)
    return tuple(
        DeletePod(pod.name, pod.uid, why)
        for pod, report in reports
        if report.is_fenced and report.runtime is not None and report.runtime.active and pod.deleting_since is None
    )


def _may_finish(situation: Situation, active: Pod) -> bool:
    """Whether a driver whose pod is being deleted is still to finish its epoch."""
    runtime, since = situation.observed.report_of(active).runtime, active.deleting_since or 0.0
    runs = runtime is not None and runtime.state is RunState.RUNNING
    return runs and situation.observed.now - since <= situation.timeouts.take_over_seconds


def _successor(situation: Situation) -> Pod | None:
    """The driver to activate: rather one whose program waits already, and has not failed; rather another one than that which has ended."""
    last = situation.before.driver

    def rank(pod: Pod) -> tuple[bool, int, bool, int]:
        report = situation.observed.report_of(pod)
        failures = 0 if report.runtime is None else report.runtime.failures
        return not report.waits, failures, last is not None and last.active_uid == pod.uid, pod.slot

    found = (pod for pod in situation.observed.drivers if pod.deleting_since is None and _can_follow(situation, pod))
    return min(found, key=rank, default=None)


def _can_follow(situation: Situation, pod: Pod) -> bool:
    report = situation.observed.report_of(pod)
    return report.is_standby and report.runtime is not None and report.runtime.state not in ENDED


def _may_be_active(situation: Situation, pod: Pod) -> bool:
    """Whether a driver may be active although that is not known. One that is only starting is not: it waits for its activation."""
    report, recorded = situation.observed.report_of(pod), situation.before.driver
    if report.is_standby:
        return False
    known = recorded is not None and recorded.active_uid == pod.uid
    return report.is_active or known or pod.ready


def _is_given_up(situation: Situation, pod: Pod) -> bool:
    """Whether the stream continues without a driver that may be active."""
    report = situation.observed.report_of(pod)
    if pod.deleting_since is not None:
        return True
    if report.is_active:
        return False
    now = situation.observed.now
    silent = now - (now if report.silent_since is None else report.silent_since)
    return (not pod.ready and not report.timed_out) or silent > situation.timeouts.take_over_seconds


def _why(situation: Situation, successor: Pod) -> str:
    """What the successor replaces; empty if there was no active driver before."""
    last = situation.before.driver
    if last is None or not last.active_uid or last.active_uid == successor.uid:
        return ""
    pod = next((each for each in situation.observed.drivers if each.uid == last.active_uid), None)
    if pod is None:
        return f"pod {last.active} is gone"
    if pod.deleting_since is not None:
        return f"pod {pod.name} is being deleted"
    if situation.observed.report_of(pod).is_standby:
        return f"the process in pod {pod.name} has ended"
    ready = "is not ready" if not pod.ready else "is ready"
    return f"pod {pod.name} {ready} and does not answer{pod.message and ': '}{pod.message}"
