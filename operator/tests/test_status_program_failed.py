"""A failed program: condition and event begin with what was raised, however long the way to it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_decide import FLOW, LIMITS, NOW, SETTLED, condition, observed, pod
from test_pod_state import pod as read_pod
from test_pod_state import waiting

from binshift.control.models import REASON_CHARACTERS_MAX
from binshift.errors import UserFunctionFailed
from binshift.hosting.pod.lifecycle import again_reason, of_program
from binshift_operator.decide import decide
from binshift_operator.driver_answers import parse_runtime
from binshift_operator.events import event_manifest
from binshift_operator.model.observed import ObservedState
from binshift_operator.model.pods import PodState
from binshift_operator.model.status import ConditionType
from binshift_operator.status import transitions

CAUSE = "KeyError: 'no price for item 4711'"
LIBRARY = "/usr/local/lib/python3.12/site-packages/pricing/catalogue/lookup_of_prices.py"


def frames(count: int, name: str = LIBRARY) -> str:
    """The frames of a traceback, with a line of code each."""
    code = "return self._initialize_context(self._configuration._jconf, something_else)"
    return "".join(f'  File "{name}", line {n}, in function_{n}\n    {code}\n    {"^" * 40}\n' for n in range(count))


def shown(state: ObservedState) -> tuple[str, str]:
    """The messages of the condition and of the event."""
    status = decide(FLOW, state, SETTLED, LIMITS).status
    found = condition(status, ConditionType.DEGRADED)
    assert found.reason == "ProgramFailed"
    (event,) = (each for each in transitions(SETTLED, status) if each.reason == "ProgramFailed")
    return found.message, str(event_manifest(FLOW.key, event, NOW)["message"])


def failed(reason: str, state: str = "Loading") -> ObservedState:
    """A driver that reports that its program has failed."""
    runtime = parse_runtime({"state": state, "reason": reason[:REASON_CHARACTERS_MAX], "failures": 3})
    return replace(observed(), runtime=runtime)


HEADER = "Traceback (most recent call last):\n"
MAIN = '  File "/app/main.py", line 30, in <module>\n    query.awaitTermination()\n'
IN_EPOCH = UserFunctionFailed(f"the program failed inside an epoch:\n{frames(6)}{CAUSE}")
CHAIN = f"{HEADER}{frames(9)}{CAUSE}\n\nThe above exception was the direct cause of the following exception:\n\n{HEADER}{MAIN}"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("no price for item 4711"), f"{HEADER}{MAIN}{frames(40)}{CAUSE}"),
        (IN_EPOCH, f"{HEADER}{MAIN}binshift.errors.UserFunctionFailed: {IN_EPOCH}"),
        (RuntimeError("no prices"), f"{CHAIN}RuntimeError: no prices"),
        (None, f"the program ended with exit status 1; the end of its output:\n{frames(30)}{CAUSE}"),
    ],
    ids=["raised", "inside an epoch", "chained", "exit status"],
)
def test_condition_and_event_have_the_cause(error: Exception | None, text: str) -> None:
    """Type and message of the exception are among the first three lines, and at most one frame precedes them."""
    outcome = of_program(None, False, error, text)
    for message in shown(failed(again_reason(outcome, 3))):
        first = message.splitlines()[:4]
        assert any(CAUSE in line for line in first), message
        assert sum("File" in line for line in first) <= 2
        assert "_initialize_context" not in message
        assert "failed 3 times in a row" in message


@pytest.mark.parametrize("introduced", [False, True])
def test_the_end_of_a_log_begins_with_the_cause(introduced: bool) -> None:
    """The kubelet keeps the last 2048 bytes of a crashed container's log, which begin anywhere; the exception in them comes first."""
    log = f"INFO the worker starts\n{HEADER}{frames(40)}{CAUSE}\n" if introduced else f"{frames(40)}{CAUSE}\n"[-2048:]
    ended: dict[str, Any] = {"lastState": {"terminated": {"exitCode": 1, "message": log}}}
    found = read_pod(waiting("CrashLoopBackOff", **ended))
    assert (found.state, len(found.message) < 400) == (PodState.CRASHING, True)
    assert found.message.startswith(f"container worker crashes repeatedly: {CAUSE}\n")
    assert found.message.endswith(f'  File "{LIBRARY}", line 39, in function_39')
    driver = pod(0, driver=True, state=PodState.CRASHING, message=found.message)
    for message in shown(replace(observed(), runtime=None, pods=(driver, pod(0), pod(1)))):
        assert message.startswith(f"pod clicks-driver-0: container worker crashes repeatedly: {CAUSE}\n")


def test_an_error_without_a_traceback_stays() -> None:
    """Text without frames is shown as it is, with its indentation."""
    reason = "AnalysisException: [UNRESOLVED_COLUMN] a;\n'Project ['a]\n+- Relation [b]\n   +- Table t"
    for message in shown(failed(reason, "Failed")):
        assert message == reason
