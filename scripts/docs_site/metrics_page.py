"""The pages of metrics and alerts: from a scrape in which every metric has a value, and from the chart's rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import declared
import yaml
from docs_site.documents import ROOT
from docs_site.markdown import code, fenced, table
from prometheus_client.metrics_core import Metric

RULES: Final = ROOT / "charts" / "binshift" / "rules"
HEAD: Final = ("metric", "type", "labels", "meaning")


def page() -> str:
    """The page of metrics."""
    return f"""# Metrics

Generated from the declarations in `runtime/binshift/metrics` and `operator/binshift_operator/metrics.py`.
If a program has several stateful queries, each metric of the driver has the additional label `query`.

## Of a driver

{table(HEAD, rows(declared.of_runtime()))}
## Of the operator

{table(HEAD, rows(declared.of_operator()))}
## Recorded by the chart

{"".join(recorded())}"""


def rows(families: Iterable[Metric]) -> Iterator[list[str]]:
    """A row for each metric: the labels are those of its samples, with their values if they are a closed set."""
    for family in families:
        if family.name == "python_info":
            continue
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        name = family.name + ("_total" if family.type == "counter" else "")
        yield [code(name), family.type, "; ".join(_label(name, each) for each in labels), family.documentation]


def _label(metric: str, label: str) -> str:
    values = sorted(declared.VALUES.get((metric, label), ()))
    return code(label) + (f" ({', '.join(values)})" if values else "")


def rules() -> Iterator[dict[str, Any]]:
    """All rules of the chart."""
    for path in sorted(RULES.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            yield from group["rules"]


def recorded() -> Iterator[str]:
    """The recording rules."""
    for rule in rules():
        if "record" in rule:
            yield f"`{rule['record']}`:\n\n{fenced(rule['expr'], 'promql')}\n"


def alerts() -> str:
    """The page of alerts."""
    return f"""# Alerts

Generated from `charts/binshift/rules`. `monitoring.rules.alerts` of the chart overrides or disables single alerts by name.

{"".join(_alert(rule) for rule in rules() if "alert" in rule)}"""


def _alert(rule: dict[str, Any]) -> str:
    wait = f", for {rule['for']}" if "for" in rule else ""
    text = " ".join(readable(rule["annotations"][name]) for name in ("summary", "description"))
    severity, expression = rule["labels"]["severity"], fenced(rule["expr"], "promql")
    return f"## {rule['alert']}\n\nSeverity {severity}{wait}. {text}\n\n{expression}\n"


def readable(template: str) -> str:
    """A text with the names of labels in the place of directives.

    >>> readable("{{ $labels.namespace }} for {{ $value | humanizeDuration }}")
    'NAMESPACE for VALUE'
    """
    return re.sub(r"\{\{ *\$(?:labels\.)?(\w+)[^}]*\}\}", lambda found: found[1].upper(), template)
