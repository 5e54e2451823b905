"""How an API server keeps values, and selects objects."""

from __future__ import annotations

from typing import Any

LEFT_OUT = ("value", "readOnly", "key", "effect")
"""Fields that the server leaves out when they are empty."""


def without_empty(value: Any) -> Any:
    """A value as it comes back: Go leaves out what is empty."""
    if isinstance(value, list):
        return [without_empty(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: without_empty(each) for name, each in value.items() if each or name not in LEFT_OUT}


def selected(found: dict[str, Any], fields: str) -> bool:
    """Whether an object has these values in these fields."""
    for pair in filter(None, fields.split(",")):
        path, value = pair.split("=")
        place: Any = found
        for name in path.split("."):
            place = (place or {}).get(name)
        if place != value:
            return False
    return True
