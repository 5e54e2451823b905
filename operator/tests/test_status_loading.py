"""Programs that load: one that waits for its executors is no failure, one that has failed is."""

from __future__ import annotations

import pytest
from sim_cluster import NAME, NS, SimCluster
from test_decide import FLOW, LIMITS, SETTLED, condition, observed

from binshift_operator.decide import decide
from binshift_operator.driver_answers import parse_runtime
from binshift_operator.model.status import ConditionType


def warnings(cluster: SimCluster) -> list[str]:
    """The reasons of all warnings that the operator has written."""
    events = cluster.server.listed("Event", NS)
    return [each["reason"] for each in events if each["type"] == "Warning" and each.get("source")]


@pytest.mark.parametrize("restart", ["planned", "driver deleted", "Secret lost"])
def test_a_restart_is_no_failure(restart: str) -> None:
    """A driver that starts with bins in its log names the executors it needs: a normal step that requires no action."""
    cluster = SimCluster().start(2)
    cluster.converge()
    if restart == "planned":
        cluster.edit(restartNonce=1)
    elif restart == "driver deleted":
        cluster.server.remove(("Pod", NS, f"{NAME}-driver-0"))
    else:
        cluster.server.remove(("Secret", NS, f"{NAME}-keys"))
    for _ in range(40):
        cluster.run(1)
        (degraded,) = (each for each in cluster.status["conditions"] if each["type"] == "Degraded")
        assert degraded["status"] == "False", degraded
    assert "ProgramFailed" not in warnings(cluster)
    cluster.converge()


@pytest.mark.parametrize(("failures", "reason"), [(0, "AsExpected"), (2, "ProgramFailed")])
def test_loading_after_a_failure(failures: int, reason: str) -> None:
    """The message of a loading program is a failure if it has failed before, and its progress otherwise."""
    fields = {"state": "Loading", "reason": "the query needs the workers that hold its bins: 0, 1", "workers": [0, 1]}
    runtime = parse_runtime({**fields, "failures": failures})
    seen = observed(runtime={name: getattr(runtime, name) for name in ("state", "reason", "failures", "holding")})
    status = decide(FLOW, seen, SETTLED, LIMITS).status
    assert condition(status, ConditionType.DEGRADED).reason == reason
    assert condition(status, ConditionType.READY).message == fields["reason"]
