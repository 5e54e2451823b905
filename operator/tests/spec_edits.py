"""Edits of a spec, valid and not, drawn from the definition's own schema: every field of it, by its type, bounds, pattern and rules.

Nothing here knows what a field means, or whether an edit is valid: `sim_admission` or a real API server decides that.
"""

from __future__ import annotations

import copy
import json
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cel import re2
from hypothesis import strategies as st
from sim_admission import SPEC, Schema

Place = tuple[str, ...]
Strategy = st.SearchStrategy[Any]

LEFT_OUT = "<left out>"
"""Instead of a value: the field is removed."""
ITEMS_MAX = 3
CHARACTERS_MAX = 12
AFFORDABLE: dict[Place, int] = {("replicas",): 5, ("autoscaling", "minReplicas"): 5}
"""A made-up cluster could not carry what the definition allows."""
ODD = "\n\t\r\f\\ =:#!$()'\"{}é\u2028\u00a0"
"""What escaping is for."""


@dataclass(frozen=True)
class Edit:
    """An edit by a user: gives a field a value, or removes it."""

    place: Place
    value: Any

    def of(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The spec with it."""
        made = copy.deepcopy(dict(spec))
        inner = made
        for name in self.place[:-1]:
            below = inner.setdefault(name, {})
            inner = below if isinstance(below, dict) else inner.update({name: {}}) or inner[name]
        if self.value == LEFT_OUT:
            inner.pop(self.place[-1], None)
        else:
            inner[self.place[-1]] = copy.deepcopy(self.value)
        return made


def places(schema: Schema = SPEC, at: Place = ()) -> Iterator[tuple[Place, Schema]]:
    """Every field that can be named, with its schema; lists and maps are edited as a whole."""
    for name, each in (schema.get("properties") or {}).items():
        yield (*at, name), each
        yield from places(each, (*at, name))


PLACES: dict[Place, Schema] = dict(places())


def edits(among: Mapping[Place, Schema] = PLACES) -> st.SearchStrategy[Edit]:
    """Any edit."""
    return st.sampled_from(sorted(among)).flatmap(lambda place: at(place, among[place]))


def at(place: Place, schema: Schema) -> st.SearchStrategy[Edit]:
    """An edit of this field: a value that fits the schema, most of the time."""
    fits = valid(schema, place)
    return st.builds(Edit, st.just(place), st.one_of(fits, fits, fits, wrong(schema, place), st.just(LEFT_OUT)))


# ----------------------------------------------------------------------------------------------------- what fits the schema


def valid(schema: Schema, place: Place = ()) -> Strategy:
    """A value that fits the schema; rules between fields may still reject it."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(_usual_quantity(), st.integers(0, 2**40), matching(schema["pattern"]))
    match schema.get("type"):
        case "boolean":
            return st.booleans()
        case "integer":
            return _whole(schema, place)
        case "string":
            return _text(schema)
        case "array":
            return _list(schema)
        case _:
            return _object(schema, place)


def _usual_quantity() -> Strategy:
    return st.builds("{}{}".format, st.integers(1, 9), st.sampled_from(["Gi", "", "00Mi", "00m", "000Mi"]))


def _whole(schema: Schema, place: Place) -> Strategy:
    most: int = schema.get("maximum", 2**31 - 1 if schema.get("format") == "int32" else 2**63 - 1)
    most = AFFORDABLE.get(place, most)
    least: int = schema.get("minimum", -most)
    near = min(most, max(least, 0) + 9)
    usual = st.integers(max(least, 0), near)
    return st.one_of(usual, usual, st.sampled_from([least, most]), st.integers(least, most))


def _text(schema: Schema) -> Strategy:
    least, most = schema.get("minLength", 0), schema.get("maxLength", CHARACTERS_MAX)
    if "pattern" in schema:
        return matching(schema["pattern"]).filter(lambda text: least <= len(text) <= most)
    usual = st.text(string.ascii_lowercase + string.digits, min_size=max(least, 1), max_size=CHARACTERS_MAX)
    odd = st.text(string.ascii_letters + ODD, min_size=least, max_size=min(most, CHARACTERS_MAX))
    return st.one_of(usual, odd)


def matching(pattern: str) -> Strategy:
    """A text that matches, of printable signs."""
    return st.from_regex(re.compile(re2(pattern), re.ASCII)).filter(lambda text: text.isprintable() and len(text) < 60)


def _list(schema: Schema) -> Strategy:
    names = schema.get("x-kubernetes-list-map-keys")
    by = (lambda each: json.dumps([each.get(name) for name in names])) if names else None
    return st.lists(valid(schema["items"]), max_size=min(ITEMS_MAX, schema.get("maxItems", ITEMS_MAX)), unique_by=by)


def _object(schema: Schema, place: Place) -> Strategy:
    known = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        return st.dictionaries(_names(schema, place), valid(more), max_size=ITEMS_MAX)
    if not known:
        return _anything()
    fields = {name: valid(each, (*place, name)) for name, each in known.items()}
    must = {name: fields[name] for name in schema.get("required", ())}
    if schema.get("maxProperties") == 1:
        return st.sampled_from(sorted(fields)).flatmap(lambda name: st.fixed_dictionaries({name: fields[name]}))
    return st.fixed_dictionaries(must, optional={name: each for name, each in fields.items() if name not in must})


def _names(schema: Schema, place: Place) -> Strategy:
    """Names in a map: some that the definition mentions, and others."""
    spoken = set(re.findall(r"'([\w.]+)'", json.dumps(schema.get("x-kubernetes-validations", ()))))
    spoken |= set(re.findall(r"spark(?:\.\w+)+", schema.get("description", "")))
    spoken |= set((PLACES_BY_DEFAULT.get(place) or {}).keys())
    others = _text({"minLength": 1, "maxLength": CHARACTERS_MAX})
    return st.one_of(st.sampled_from(sorted(spoken)), others) if spoken else others


def _anything() -> Strategy:
    leaf = st.one_of(st.booleans(), st.integers(0, 9), _text({}))
    name = st.text(string.ascii_letters, min_size=1, max_size=6)
    return st.dictionaries(
        name, st.recursive(leaf, lambda below: st.lists(below, max_size=2), max_leaves=3), max_size=2
    )


def _defaults(schema: Schema, at: Place, given: Any) -> Iterator[tuple[Place, Any]]:
    given = schema.get("default", given)
    if given is not None:
        yield at, given
    for name, each in (schema.get("properties") or {}).items():
        yield from _defaults(each, (*at, name), given.get(name) if isinstance(given, dict) else None)


PLACES_BY_DEFAULT: dict[Place, Any] = dict(_defaults(SPEC, (), None))

# ------------------------------------------------------------------------------------------------- what does not fit the schema


def wrong(schema: Schema, place: Place = ()) -> Strategy:
    """A value that does not fit: of another type, out of bounds, unlike the pattern, with a field too many or too few."""
    found: list[Strategy] = [_other_type(schema)]
    kind = schema.get("type")
    if kind == "integer":
        found += [st.just(schema[bound] + step) for bound, step in (("minimum", -1), ("maximum", 1)) if bound in schema]
        found += [st.just(2**63), st.floats(0.1, 0.9)]
    if kind == "string":
        found += [st.just("x" * (schema.get("maxLength", 1024) + 1)), st.just(""), st.just(" \n")]
    if kind == "array":
        found += [st.lists(wrong(schema["items"]), min_size=1, max_size=2)]
        found += [valid(schema["items"]).map(lambda each: [each, each])]
    if kind == "object" and schema.get("properties"):
        found += [st.just({}), st.just({"noSuchField": 1})]
        found += [_broken_field(name, each, (*place, name)) for name, each in sorted(schema["properties"].items())]
    return st.one_of(found)


def _broken_field(name: str, schema: Schema, place: Place) -> Strategy:
    return st.deferred(lambda: wrong(schema, place)).map(lambda value: {name: value})


def _other_type(schema: Schema) -> Strategy:
    samples: Mapping[str, Any] = {"array": [1], "boolean": True, "integer": 7, "object": {"a": 1}, "string": "text"}
    fits = {"integer", "string"} if schema.get("x-kubernetes-int-or-string") else {schema.get("type")}
    return st.sampled_from([value for kind, value in samples.items() if kind not in fits])
