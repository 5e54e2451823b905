"""What a user writes arrives unchanged: Spark's conf through a properties file, sizes through arithmetic, maps through hashes."""

from __future__ import annotations

import re

import pytest
from crd_cases import BASE, changed
from hypothesis import given
from hypothesis import strategies as st
from sim_cluster import SimCluster
from spec_edits import ODD

from binshift_operator.children.spark_conf import format_properties
from binshift_operator.model.quantities import quantity
from binshift_operator.model.specification import restart_hash

SIGNS = {"n": "\n", "r": "\r", "f": "\f", "t": "\t"}


def properties(text: str) -> dict[str, str]:
    """What Java reads from a file of properties whose lines are not continued."""
    found = {}
    for line in filter(None, re.split(r"[\n\r]", text)):
        bare = line.lstrip(" \t\f")
        if bare.startswith(("#", "!")):
            continue
        key = re.match(r"(?:\\.|[^\\ \t\f=:])*", bare, re.DOTALL)
        assert key is not None
        value = re.sub(r"^[ \t\f]*[=:]?[ \t\f]*", "", bare[key.end() :])
        found[unescaped(key[0])] = unescaped(value)
    return found


def unescaped(text: str) -> str:
    """Without backslashes that escape."""
    return re.sub(r"\\(.)", lambda sign: SIGNS.get(sign[1], sign[1]), text, flags=re.DOTALL)


@given(st.dictionaries(st.text("ab." + ODD, min_size=1, max_size=8), st.text("ab." + ODD, max_size=8), max_size=4))
def test_conf_arrives_as_it_was_written(conf: dict[str, str]) -> None:
    """Whatever signs a name or a value has, Spark reads that name with that value, and no other."""
    assert properties(format_properties(conf)) == conf


def test_name_with_a_line_end_sets_nothing_else() -> None:
    """A key of `sparkConf` with a line end in it does not set one that the definition refuses."""
    assert list(properties(format_properties({"spark.a\nspark.master": "local"}))) == ["spark.a\nspark.master"]


def test_value_without_a_name_is_reported() -> None:
    """An empty key is rejected with a message; Spark would take the value for a name."""
    with pytest.raises(ValueError, match="without a name"):
        format_properties({"": "x"})


@pytest.mark.parametrize("text", ["1e1000000", "1e999999999999", "9" * 5000, "1." + "0" * 100])
def test_quantity_beyond_all_use(text: str) -> None:
    """A quantity that the definition's pattern accepts and no machine has is rejected at once, with a message."""
    with pytest.raises(ValueError, match="quantity"):
        quantity(text)


def test_excessive_memory_is_reported() -> None:
    """A limit of 10^1000000 bytes does not stop the operator: it is reported as an invalid spec, and the stream continues."""
    cluster = SimCluster().start()
    cluster.converge()
    cluster.edit(executor={"resources": {"limits": {"memory": "1e1000000"}}})
    epoch = cluster.log.epoch
    cluster.run(5)
    degraded = next(each for each in cluster.status["conditions"] if each["type"] == "Degraded")
    assert degraded["reason"] == "InvalidSpec"
    assert cluster.status["observedGeneration"] == 2
    assert cluster.log.epoch > epoch
    cluster.edit(executor={})
    cluster.converge()


EMPTY_BUT_SAID = [
    {"spec.driver": {"pod": {"nodeSelector": {"gpu": ""}}}},
    {"spec.executor": {"pod": {"labels": {"spot": ""}}}},
    {"spec.executor": {"pod": {"annotations": {"note": ""}}}},
    {"spec.executor": {"pod": {"affinity": {"podAffinity": {"x": ""}}}}},
    {"spec.executor": {"storage": {"volumeClaimTemplate": {"spec": {}}}}},
    {"spec.sparkConf": {"spark.x": ""}},
]


@pytest.mark.parametrize("changes", EMPTY_BUT_SAID, ids=lambda changes: next(iter(changes)))
def test_empty_text_restarts(changes: dict[str, object]) -> None:
    """An entry of a map is significant even if its value is empty: pods are recreated for it."""
    assert restart_hash(changed(changes)["spec"]) != restart_hash(BASE["spec"])


def test_node_selector_with_an_empty_value_reaches_the_pods() -> None:
    """`nodeSelector: {node-role.kubernetes.io/worker: ""}` is in force once the edit is settled, not at some later restart."""
    cluster = SimCluster().start()
    cluster.converge()
    chosen = {"node-role.kubernetes.io/worker": ""}
    cluster.edit(executor={"pod": {"nodeSelector": chosen}})
    cluster.converge()
    assert [pod["spec"].get("nodeSelector") for pod in cluster.pods("executor")] == [chosen, chosen]
