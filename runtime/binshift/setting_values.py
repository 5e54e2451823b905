"""Reads one value of a setting: from Python, or from the text of an option or of Spark conf."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from binshift.errors import InvalidSettings

_WANTED: Final = {
    bool: "true or false",
    float: "a finite number",
    int: "a whole number",
    str: "a text that is not empty",
}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"\s*([\d.]+)\s*([a-z]+)\s*")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values that a setting can have."""

    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()


def checked(kind: type, value: object, bounds: Bounds, place: str) -> object:
    """The value in the type ``kind``.

    Args:
        kind: of the setting: bool, int, float or str.
        value: as it was given.
        bounds: of the setting.
        place: where it was given, for errors.

    Raises:
        InvalidSettings: it has another type, or is out of range.

    >>> checked(float, "500ms", Bounds(), "option 'binshift.maxEpoch'")
    0.5
    """
    parsed = _parsed(kind, value)
    if parsed is None:
        raise InvalidSettings(f"{place} is {value!r}; it must be {_WANTED[kind]}")
    if isinstance(parsed, str) and bounds.choices:
        matching = [choice for choice in bounds.choices if choice.lower() == parsed.lower()]
        if not matching:
            raise InvalidSettings(f"{place} is {value!r}; it must be one of {', '.join(bounds.choices)}")
        return matching[0]
    if isinstance(parsed, int | float) and not bounds.least <= parsed <= bounds.most:
        most = "" if math.isinf(bounds.most) else f", at most {bounds.most}"
        raise InvalidSettings(f"{place} is {value!r}; it must be at least {bounds.least}{most}")
    return parsed


def _parsed(kind: type, value: object) -> bool | int | float | str | None:
    """None if the value does not have the type; text is parsed, as options and conf are text."""
    if kind is str:
        return value if isinstance(value, str) and value else None
    if kind is bool:
        given = value.lower() if isinstance(value, str) else value
        known = {"true": True, "false": False}.get(given) if isinstance(given, str) else given
        return known if isinstance(known, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value) if kind is int and isinstance(value, int | str) else _float(value)
    except ValueError:
        return None
    return number if isinstance(number, kind) and math.isfinite(number) else None


def _float(value: int | float | str) -> float:
    """A number, or a duration in seconds; durations have units as in Spark and Kubernetes."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found and found[2] in _SECONDS:
        return float(found[1]) * _SECONDS[found[2]]
    return float(value)
