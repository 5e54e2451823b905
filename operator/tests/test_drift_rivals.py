"""Two operators that serve one dataflow: they do not fight hot, both name each other, and the one that stays puts all in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sim_cluster import NAME, NS, SimCluster
from sim_server import Crash
from test_status_degraded import start_cluster

from binshift_operator.children import RenderContext
from binshift_operator.children.comparison import ANNOTATION_APPLIED_BY, NAMELESS
from binshift_operator.errors import OperatorError
from binshift_operator.reconcile import Reconciler

ONE, OTHER = ("one", "one/a (1)"), ("other", "other/b (2)")
"""The namespace of an operator, and its name."""
POLICY = ("NetworkPolicy", NS, NAME)
MINUTES = 10


@dataclass
class Rivals:
    """A cluster whose dataflow two operators serve, which render its NetworkPolicy differently."""

    cluster: SimCluster
    operators: list[Reconciler]

    def run(self, seconds: int) -> None:
        """Time passes; each operator reconciles as soon as it is due, twice a second at most."""
        due = [0.0] * len(self.operators)
        for _ in range(seconds):
            for half in (0.0, 0.5):
                for number, each in enumerate(self.operators):
                    if due[number] <= self.cluster.now + half:
                        due[number] = self.cluster.now + half + self.reconcile(each)
            self.cluster.tick()

    def reconcile(self, operator: Reconciler) -> float:
        """One of them reconciles; in how many seconds it is due again."""
        try:
            return operator.reconcile(NS, NAME).requeue_after or 0.0
        except (Crash, OperatorError):
            return 1.0

    def written(self) -> int:
        """How often the policy was written until now."""
        return sum("networkpolicies" in each for each in self.cluster.server.writes)

    def degraded(self) -> dict[str, Any]:
        """The condition."""
        return next(each for each in self.cluster.status["conditions"] if each["type"] == "Degraded")


def rivals(*named: tuple[str, str]) -> Rivals:
    """A dataflow in place, and operators that find it."""
    cluster = start_cluster()
    return Rivals(cluster, [cluster.operator(RenderContext(namespace), name) for namespace, name in named])


def test_two_operators_do_not_fight_hot() -> None:
    """After a few alternations both back off: ten minutes see no more writes than the growing waits leave room for."""
    found = rivals(ONE, OTHER)
    before = found.written()
    found.run(60 * MINUTES)
    assert found.written() - before < 40
    last = found.written()
    found.run(60 * MINUTES)
    assert found.written() - last <= 12


def test_both_operators_are_named() -> None:
    """Whichever of them wrote the status last, it names both operators, and the objects that they contest."""
    found = rivals(ONE, OTHER)
    found.run(60)
    for _ in range(4):
        found.run(30)
        degraded = found.degraded()
        assert (degraded["status"], degraded["reason"]) == ("True", "TwoOperators")
        for word in ("one/a (1)", "other/b (2)", f"NetworkPolicy {NAME}", "watchNamespaces"):
            assert word in degraded["message"]


def test_an_older_operator_has_no_name() -> None:
    """An operator without a name is reported anyway."""
    found = rivals(ONE, ("older", ""))
    found.run(120)
    assert found.degraded()["reason"] == "TwoOperators"
    assert NAMELESS in found.degraded()["message"]


def test_the_one_that_stays_puts_all_in_place() -> None:
    """Once one of them is gone, the other one's policy is in place, and no manual action is required."""
    found = rivals(ONE, OTHER)
    found.run(60 * MINUTES)
    found.operators.pop()
    found.run(60 * 12)
    annotations = found.cluster.server.objects[POLICY]["metadata"]["annotations"]
    assert annotations[ANNOTATION_APPLIED_BY] == "one/a (1)"
    assert found.degraded()["reason"] == "AsExpected"
    last = found.written()
    found.run(120)
    assert found.written() == last


def test_an_upgrade_is_no_fight() -> None:
    """A new version of the operator that replaces another one writes each difference once, without manual action."""
    found = rivals(ONE)
    found.run(30)
    found.operators = [found.cluster.operator(RenderContext(OTHER[0]), OTHER[1])]
    before = found.written()
    found.run(60)
    assert found.written() == before + 1
    assert found.degraded()["reason"] == "AsExpected"


def test_two_instances_of_one_operator_are_no_rivals() -> None:
    """Two that render the same write nothing over each other."""
    found = rivals(ONE, ("one", "one/c (1)"))
    found.run(30)
    before = found.written()
    found.run(120)
    assert found.written() == before
    assert found.degraded()["reason"] == "AsExpected"
