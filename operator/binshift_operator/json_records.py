"""Objects as JSON: one table for each kind of object gives the name of every field and how to write and read its value.

Unknown values are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Field(NamedTuple):
    """A field: its attribute and its name in JSON, how to read and write its value, and whether an empty value is left out."""

    attribute: str
    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value
    omit_empty: bool = False


@dataclass(frozen=True)
class Record(Generic[Value]):
    """The fields of one kind of object."""

    kind: Callable[..., Value]
    fields: tuple[Field, ...]

    def write(self, value: Value) -> dict[str, Any]:
        """Its JSON; what is unknown (None) is left out."""
        values = ((field, getattr(value, field.attribute)) for field in self.fields)
        return {f.name: f.write(each) for f, each in values if each is not None and (each or not f.omit_empty)}

    def read(self, found: Mapping[str, Any]) -> Value:
        """The object in its JSON; what is missing has its default."""
        known = ((field, found.get(field.name)) for field in self.fields)
        return self.kind(**{field.attribute: field.read(each) for field, each in known if each is not None})
