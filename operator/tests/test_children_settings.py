"""Fields that reach the runtime as settings: `spec.maxEpoch` and `spec.standbyReplicas`; an edit of one is a restart."""

from __future__ import annotations

from crd_cases import changed

from binshift_operator.children.spark_conf import spark_conf
from binshift_operator.model.specification import Dataflow, parse


def dataflow(**edits: object) -> Dataflow:
    """The smallest one with these edits."""
    made = changed({f"spec.{name}": value for name, value in edits.items()})
    made["metadata"] |= {"namespace": "ns", "uid": "uid-1", "generation": 1}
    return parse(made)


def test_the_longest_epoch_is_in_seconds() -> None:
    """The runtime gets it as a setting; without it, none."""
    assert spark_conf(dataflow(maxEpoch="1m30s"))["spark.binshift.maxEpoch"] == "90.0s"
    assert "spark.binshift.maxEpoch" not in spark_conf(dataflow())


def test_standby_replicas_are_a_number() -> None:
    """The runtime gets it as a setting; without it, the runtime's default counts."""
    assert spark_conf(dataflow(standbyReplicas=1))["spark.binshift.standbyReplicas"] == "1"
    assert "spark.binshift.standbyReplicas" not in spark_conf(dataflow())


def test_an_edit_restarts() -> None:
    """Spark's conf is read when a driver starts."""
    edits: tuple[dict[str, object], ...] = ({}, {"maxEpoch": "1s"}, {"maxEpoch": "2s"}, {"standbyReplicas": 1})
    assert len({dataflow(**each).restart_hash for each in edits}) == len(edits)
