"""The rules by Prometheus' own tool: they are well-formed, and each alert fires when it should and is silent when not."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import shipped
import yaml
from tools import tool

needs_tools = pytest.mark.chart


@pytest.fixture
def promtool() -> str:
    """promtool's path."""
    return tool("promtool")


def cases() -> list[dict[str, Any]]:
    """Every case of every alert in promtool's tests."""
    groups = [g for path in shipped.RULE_TESTS for g in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]]
    return [case for group in groups for case in group["alert_rule_test"]]


ALERTS = {name: alert for path in shipped.RULES for name, alert in shipped.alerts(path).items()}


@pytest.mark.parametrize("name", ALERTS)
def test_alert_is_tried_both_ways(name: str) -> None:
    """There is a case in which an alert fires, and one in which it does not."""
    fires = {bool(case["exp_alerts"]) for case in cases() if case["alertname"] == name}
    assert fires == {True, False}


@pytest.mark.parametrize("name", ALERTS)
def test_alert_has_a_remedy(name: str) -> None:
    """An alert has its severity, a summary, and a description with other content; the chart's README lists it."""
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"].keys() == {"summary", "description"}
    assert all(text.endswith(".") for text in alert["annotations"].values())
    line = [line for line in (shipped.CHART / "README.md").read_text(encoding="utf-8").splitlines() if name in line]
    assert any(line.startswith(f"| {name} |") and line.endswith(f"| {alert['labels']['severity']} |") for line in line)


@needs_tools
def test_rules_are_well_formed(promtool: str) -> None:
    """promtool finds nothing wrong with the rule files, style included."""
    command = [promtool, "check", "rules", "--lint=all", "--lint-fatal", *map(str, shipped.RULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_tools
@pytest.mark.parametrize("path", shipped.RULE_TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should(promtool: str, path: Path) -> None:
    """promtool's own tests of the rules pass."""
    done = subprocess.run([promtool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_tools
def test_expressions_of_dashboards_are_well_formed(promtool: str, tmp_path: Path) -> None:
    """Prometheus itself takes every expression of the dashboards."""
    texts = sorted({each.text for each in shipped.expressions()})
    rules = [{"record": f"tried:expression:{number}", "expr": text} for number, text in enumerate(texts)]
    file = tmp_path / "tried.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "tried", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(texts)} rules found" in done.stdout
