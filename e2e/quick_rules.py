"""The chart's rules at another speed: as they are, but for minutes made seconds and thresholds to match. Pure.

An alert waits for minutes or hours on purpose. A story that causes it cannot; what it is to show is that the metric, its labels and the
expression see the trouble. Names, labels, selectors and arithmetic stay the chart's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FASTER = 30
"""How many times faster, unless `SPEEDS` has another number."""
LEAST_SECONDS = 8
"""No shorter: a rate needs some samples, of which there is one every two seconds."""
SPEEDS: Mapping[str, int] = {
    "BinshiftCrashLoop": 5,
    "BinshiftEpochsRunAgain": 5,
    "BinshiftLogGrowing": 360,
    "BinshiftStateGrowing": 360,
    "BinshiftOperatorDown": 60,
}
"""By alert: a program is not restarted thirty times as fast, nor does state grow more slowly than the node can write."""
THRESHOLDS: Mapping[str, tuple[str, str]] = {
    "BinshiftEpochHangs": ("> 300", "> 15"),
    "BinshiftEpochsRunAgain": ("> 10", "> 2"),
    "BinshiftLagGrowing": ("> 60", "> 5"),
    "BinshiftSnapshotsOld": ("> 512", "> 60"),
    "BinshiftLogGrowing": ("> 1e9", "> 1e5"),
    "BinshiftStateGrowing": ("> 1e9", "> 1e5"),
}
"""By alert: what is compared with, and with what instead."""
SECONDS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600}

_DURATION = re.compile(r"(?<=\[)(\d+)([smh])(?=\])|(?<=offset )(\d+)([smh])\b")


def quick(groups: Mapping[str, Any]) -> dict[str, Any]:
    """A file of rules, read from YAML, at the speed of stories.

    Raises:
        ValueError: an alert's expression lacks the number in `THRESHOLDS`.
    """
    return {"groups": [{**group, "rules": [_rule(rule) for rule in group["rules"]]} for group in groups["groups"]]}


def shorter(count: int, unit: str, times: int) -> str:
    """A duration, so many times shorter.

    >>> shorter(15, "m", 30), shorter(2, "m", 30), shorter(6, "h", 360)
    ('30s', '8s', '60s')
    """
    return f"{max(LEAST_SECONDS, count * SECONDS[unit] // times)}s"


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    name = str(rule.get("alert", ""))
    times, expression = SPEEDS.get(name, FASTER), str(rule["expr"])
    if name in THRESHOLDS:
        old, new = THRESHOLDS[name]
        if old not in expression:
            raise ValueError(f"{name} compares with something else than {old!r}: {expression}")
        expression = expression.replace(old, new)
    changed = {**rule, "expr": _DURATION.sub(lambda found: _found(found, times), expression)}
    if "for" in rule:
        changed["for"] = shorter(int(rule["for"][:-1]), rule["for"][-1], times)
    return changed


def _found(match: re.Match[str], times: int) -> str:
    count, unit = (match[1], match[2]) if match[1] else (match[3], match[4])
    return shorter(int(count), unit, times)
