"""What the chart ships for Prometheus and Grafana: every expression, where it is, and which metrics and labels it names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

CHARTS = Path(__file__).resolve().parents[1]
CHART = CHARTS / "binshift"
RULES = sorted((CHART / "rules").glob("*.yaml"))
DASHBOARDS = sorted((CHART / "dashboards").glob("*.json"))
RULE_TESTS = sorted((CHARTS / "tests" / "rules").glob("*.yaml"))

VARIABLES = {"$__rate_interval": "2m", "$__range": "30m", "$namespace": "shop", "$dataflow": "clicks"}
"""What Grafana would put in place of its variables."""


@dataclass(frozen=True)
class Shipped:
    """One expression, with Grafana's variables filled in."""

    where: str
    text: str


@dataclass(frozen=True)
class Named:
    """A metric that an expression names, with the labels that it expects of it; ``values`` by label, of those it selects by."""

    metric: str
    labels: frozenset[str]
    values: Mapping[str, frozenset[str]]


def rules(path: Path) -> Iterator[dict[str, Any]]:
    """Every rule of a file."""
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def alerts(path: Path) -> dict[str, dict[str, Any]]:
    """Every alert of a file, by its name."""
    return {rule["alert"]: rule for rule in rules(path) if "alert" in rule}


def dashboard(path: Path) -> dict[str, Any]:
    """A dashboard."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Its panels, without the lines between them."""
    return [each for each in board["panels"] if each["type"] != "row"]


def expressions() -> list[Shipped]:
    """Every expression of every rule, panel and annotation."""
    found = [Shipped(_name(rule), rule["expr"]) for path in RULES for rule in rules(path)]
    for path in DASHBOARDS:
        board = dashboard(path)
        for panel in panels(board):
            found += [Shipped(f"{path.stem}: {panel['title']}", filled(t["expr"])) for t in panel["targets"]]
        found += [Shipped(f"{path.stem}: {n['name']}", filled(n["expr"])) for n in board["annotations"]["list"]]
    return found


def filled(text: str) -> str:
    """An expression with values for Grafana's variables; the longest name first, as one may begin another."""
    for name in sorted(VARIABLES, key=len, reverse=True):
        text = text.replace(name, VARIABLES[name])
    return text


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("alert") or rule["record"])


def recorded() -> dict[str, frozenset[str]]:
    """The results of recording rules, with their labels: the ones that remain after the outermost aggregation."""
    found = {}
    for rule in (rule for path in RULES for rule in rules(path) if "record" in rule):
        kept = next(each for each in _nodes(promql_parser.parse(rule["expr"])) if _grouping(each))
        found[rule["record"]] = _grouping(kept) - {"le"}
    return found


def named(text: str) -> Iterator[Named]:
    """The metrics in an expression. Of a metric below an aggregation or a matching, the labels that this goes by are expected, too."""
    yield from _named(promql_parser.parse(text), frozenset())


def _named(node: Any, expected: frozenset[str]) -> Iterator[Named]:
    if isinstance(node, promql_parser.VectorSelector):
        chosen = {each.name: frozenset(each.value.split("|")) for each in node.matchers.matchers}
        yield Named(str(node.name), expected | chosen.keys(), chosen)
    for below in _below(node):
        yield from _named(below, expected | _grouping(node))


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for below in _below(node):
        yield from _nodes(below)


def _below(node: Any) -> list[Any]:
    """The parts of a node that are expressions themselves."""
    found = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector")]
    return [each for each in found if each is not None] + list(getattr(node, "args", ()))


def _grouping(node: Any) -> frozenset[str]:
    """The labels that an aggregation keeps, or a matching goes by."""
    modifier = getattr(node, "modifier", None)
    by = getattr(modifier, "matching", None) if isinstance(node, promql_parser.BinaryExpr) else modifier
    return frozenset(by.labels) if by is not None else frozenset()
