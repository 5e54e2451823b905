"""Every expression of rules and dashboards is PromQL, and names only what runtime and operator declare."""

from __future__ import annotations

import declared
import pytest
import shipped
from prometheus_client.registry import CollectorRegistry
from shipped import Shipped

from binshift.metrics import Observed, RuntimeMetrics
from binshift_operator.metrics import OperatorMetrics

EXPRESSIONS = shipped.expressions()
KNOWN = declared.everything() | shipped.recorded()
SUFFIXES = ("_bucket", "_count", "_sum")


def problems(text: str) -> list[str]:
    """What an expression names that is not there: metrics, their labels, and values of these."""
    found = []
    for each in shipped.named(text):
        if each.metric not in KNOWN:
            found.append(f"there is no metric {each.metric}")
            continue
        found += [f"{each.metric} has no label {label}" for label in sorted(each.labels - KNOWN[each.metric])]
        base = next((each.metric.removesuffix(s) for s in SUFFIXES if each.metric.endswith(s)), each.metric)
        for label, values in each.values.items():
            wrong = values - declared.VALUES.get((base, label), values)
            found += [f"{label} of {each.metric} is never {value}" for value in sorted(wrong)]
    return found


@pytest.mark.parametrize("shipped_one", EXPRESSIONS, ids=lambda each: each.where)
def test_expression_names_what_there_is(shipped_one: Shipped) -> None:
    """An expression parses, and its metrics, labels and values exist: a rename is noticed in every place of use."""
    assert problems(shipped_one.text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rate(binshift_rows_total[2m])", "there is no metric binshift_rows_total"),
        ('binshift_epoch{worker="0"}', "binshift_epoch has no label worker"),
        ("sum by (worker) (binshift_epoch)", "binshift_epoch has no label worker"),
        ("binshift_epoch > on (phase) binshift_workers", "binshift_epoch has no label phase"),
        ('binshift_state{state=~"Running|Dreaming"}', "state of binshift_state is never Dreaming"),
        ('binshift_epoch_duration_seconds_sum{part="all"}', "is never all"),
        ("dataflow:binshift_migrating:max{phase='copying'}", "has no label phase"),
    ],
)
def test_what_is_not_there_is_found(text: str, problem: str) -> None:
    """An undeclared metric, label or value is a problem, wherever it is used."""
    assert any(problem in each for each in problems(text))


def test_text_that_is_no_expression_is_found() -> None:
    """What cannot be parsed is refused."""
    with pytest.raises(ValueError, match="parenthesis"):
        list(shipped.named("sum by (worker (binshift_epoch)"))


def test_expressions_are_found() -> None:
    """Rules, panels and annotations are all checked."""
    places = {each.where.partition(":")[0] for each in EXPRESSIONS}
    assert {"dataflow", "operator", "BinshiftDriverDown"} <= places
    assert any(each.where == "dataflow: Migrations" for each in EXPRESSIONS)
    assert all("$" not in each.text for each in EXPRESSIONS)


def test_nothing_declared_is_overlooked() -> None:
    """The scrapes that expressions are held against show every metric that runtime and operator declare."""
    runtime = {each.name for each in RuntimeMetrics(CollectorRegistry(), list, Observed).describe()}
    assert {each.name for each in declared.of_runtime() if each.samples} == runtime
    registry = CollectorRegistry()
    OperatorMetrics(registry)
    assert {each.name for each in declared.of_operator() if each.samples} == {each.name for each in registry.collect()}


def test_every_metric_is_used() -> None:
    """What is measured can be seen: each metric is named by some rule or panel."""
    used = {each.metric for expression in EXPRESSIONS for each in shipped.named(expression.text)}
    families = [*declared.of_runtime(), *declared.of_operator()]
    unseen = [family.name for family in families if not {sample.name for sample in family.samples} & used]
    assert sorted(unseen) == ["binshift_epoch", "binshift_route_version"]
