"""The quantities and durations of Kubernetes, as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

_SUFFIXES: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTP", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTP", start=1)},
}
DIGITS_MAX: Final = 30
"""Of a quantity: those of Kubernetes have up to 19. Longer ones would make arithmetic arbitrarily slow."""
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def quantity(text: str | int | float) -> Decimal:
    """A Kubernetes quantity: bytes of memory, or CPUs.

    Raises:
        ValueError: it is not a quantity, or has too many digits.

    >>> int(quantity("1.5Gi")), quantity("500m"), quantity(2), int(quantity("1e3"))
    (1610612736, Decimal('0.500'), Decimal('2'), 1000)
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(?:e([0-9]+)|([a-zA-Z]*))", str(text))
    if found is None or (found[3] or "") not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 1536Mi")
    if len(found[0]) > DIGITS_MAX or int(found[2] or 0) > DIGITS_MAX:
        raise ValueError(f"{found[0][:40]!r} is too large or too precise for a quantity")
    return Decimal(found[1]) * (Decimal(10) ** int(found[2]) if found[2] else _SUFFIXES[found[3] or ""])


def duration(text: str) -> float:
    """A duration in seconds.

    Raises:
        ValueError: it is not a duration.

    >>> duration("1h30m"), duration("500ms"), duration("1.5s")
    (5400.0, 0.5, 1.5)
    """
    if not re.fullmatch(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+", text):
        raise ValueError(f"{text!r} is not a duration such as 500ms, 1s or 1h30m")
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text))


def seconds_of(given: Mapping[str, Any], name: str, usual: float) -> float:
    """A duration in a section of a spec, in seconds; ``usual`` if it is not there."""
    return duration(given[name]) if name in given else usual
