"""What the API server does with a StreamingDataflow before it keeps it, from the definition alone: prunes, fills in defaults, validates.

So a test can apply whatever it likes to a made-up cluster, and is refused what a real one would refuse (`test_real_server_random_edits` compares
the two).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cel import Undefined, compiled, re2
from test_crd import SCHEMA

Schema = Mapping[str, Any]
TYPES: Mapping[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "object": dict,
    "string": str,
}
SPEC: Schema = SCHEMA["properties"]["spec"]
INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)


def admitted(manifest: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], list[str]]:
    """The object as it would be kept, and why it would not be; ``before``: the one that is edited."""
    made = copy.deepcopy(dict(manifest))
    if isinstance(made.get("spec"), dict):
        made["spec"] = filled(SPEC, pruned(SPEC, made["spec"]))
    wrong = [*invalid(SCHEMA, made, ""), *([] if "spec" in made else ["spec: Required value"])]
    if not wrong:  # rules apply only to objects that fit the schema
        wrong += broken(SCHEMA, made, before, "")
    return made, wrong


def pruned(schema: Schema, value: Any) -> Any:
    """Without fields that the schema does not know."""
    if isinstance(value, dict):
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        keep = schema.get("x-kubernetes-preserve-unknown-fields") or not known
        return {
            name: pruned(known.get(name) or (more if isinstance(more, Mapping) else {}), each)
            for name, each in value.items()
            if name in known or keep
        }
    if isinstance(value, list):
        return [pruned(schema.get("items") or {}, each) for each in value]
    return value


def undeclared(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """What server-side apply reports about fields that the schema does not know."""
    known = schema.get("properties") or {}
    for name, each in value.items() if isinstance(value, dict) and known else ():
        if name in known:
            yield from undeclared(known[name], each, f"{path}.{name}")
        else:
            yield f"{path}.{name}: field not declared in schema"
    for index, each in enumerate(value) if isinstance(value, list) else ():
        yield from undeclared(schema.get("items") or {}, each, f"{path}[{index}]")


def filled(schema: Schema, value: Any) -> Any:
    """With defaults."""
    if isinstance(value, list):
        return [filled(schema.get("items") or {}, each) for each in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties") or {}
    missing = {name: copy.deepcopy(each["default"]) for name, each in known.items() if "default" in each}
    return {name: filled(known.get(name) or {}, each) for name, each in {**missing, **value}.items()}


def invalid(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """What does not fit the schema."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield f"{path}: neither a number nor a text"
        elif isinstance(value, str) and not re.search(re2(schema["pattern"]), value):
            yield f"{path}: {value!r} does not match"
        return
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{path}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: Unsupported value {value!r}"
    yield from _out_of_bounds(schema, value, path)
    if isinstance(value, dict):
        yield from (f"{path}.{name}: Required value" for name in schema.get("required", ()) if name not in value)
        known, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, each in value.items():
            below = known.get(name) or (more if isinstance(more, Mapping) else {})
            yield from invalid(below, each, f"{path}.{name}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from invalid(schema.get("items") or {}, each, f"{path}[{number}]")
        yield from _doubled(schema, value, path)


def _out_of_bounds(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, str):
        size, least, most = len(value), "minLength", "maxLength"
        if "pattern" in schema and not re.search(re2(schema["pattern"]), value):
            yield f"{path}: {value[:80]!r} does not match"
    elif isinstance(value, list | dict):
        size = len(value)
        least, most = ("minItems", "maxItems") if isinstance(value, list) else ("minProperties", "maxProperties")
    elif isinstance(value, int) and not isinstance(value, bool):
        size, least, most = value, "minimum", "maximum"
        if value not in (INT32 if schema.get("format") == "int32" else INT64):
            yield f"{path}: {value} is too large"
    else:
        return
    if not schema.get(least, size) <= size <= schema.get(most, size):
        yield f"{path}: {size} is out of bounds"


def _doubled(schema: Schema, value: list[Any], path: str) -> Iterator[str]:
    names = schema.get("x-kubernetes-list-map-keys")
    keys = [[each.get(name) for name in names] for each in value if isinstance(each, dict)] if names else []
    yield from (f"{path}: Duplicate value {key}" for at, key in enumerate(keys) if key in keys[:at])


def broken(schema: Schema, value: Any, before: Any, path: str) -> Iterator[str]:
    """The rules that do not hold; those about an edit only where there was a value before."""
    for rule in schema.get("x-kubernetes-validations", ()):
        source, variables = rule["rule"], {"self": value}
        if "oldSelf" in source:
            if before is None:
                continue
            variables["oldSelf"] = before
        try:
            if compiled(source)(variables) is not True:
                yield f"{path}: {rule['message']}"
        except Undefined as missing:
            yield f"{path}: no such key {missing}"
    if isinstance(value, dict):
        for name, each in value.items():
            below = (schema.get("properties") or {}).get(name)
            if below:
                last = before.get(name) if isinstance(before, Mapping) else None
                yield from broken(below, each, last, f"{path}.{name}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from broken(schema.get("items") or {}, each, None, f"{path}[{number}]")
