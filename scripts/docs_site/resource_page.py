"""The pages of the resources: every field, with type, default, limits and rules, from their CRDs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from docs_site.documents import ROOT
from docs_site.markdown import code, table

CRDS: Final = ROOT / "crds"
LIMITS: Final = {"minimum": "at least {}", "maximum": "at most {}", "pattern": "`{}`"}
HEAD: Final = ("field", "type, default and limits", "meaning")


def page(plural: str = "streamingdataflows") -> str:
    """The page of one resource."""
    definition = yaml.safe_load((CRDS / f"{plural}.yaml").read_text(encoding="utf-8"))["spec"]
    (version,) = definition["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    columns = [
        [
            each["name"],
            code(each["jsonPath"]),
            "only with `-o wide`" if each.get("priority") else "",
            each["description"],
        ]
        for each in version["additionalPrinterColumns"]
    ]
    parts = [
        f"""# {definition["names"]["kind"]}

Generated from `crds/{plural}.yaml`. On a cluster, `kubectl explain {definition["names"]["shortNames"][0]}.spec` shows the same. API version
`{definition["group"]}/{version["name"]}`, short name `{definition["names"]["shortNames"][0]}`.
"""
    ]
    for top in ("spec", "status"):
        field = schema["properties"][top]
        parts.append(f"## {top}\n\n{field['description']}\n\n{table(HEAD, rows(field, top))}")
    parts.append(
        f"## Rules\n\nThe API server rejects an object that breaks one of these.\n\n{table(RULES, rules(schema, ''))}"
    )
    shown = table(["column", "field", "", "meaning"], columns)
    parts.append(f"## Columns of kubectl get\n\n{shown}")
    return "\n".join(parts)


RULES: Final = ("field", "message", "rule")


def rows(schema: Mapping[str, Any], path: str) -> Iterator[list[str]]:
    """A row for each field below ``path``, parents first."""
    required = schema.get("required", [])
    for name, field in below(schema):
        place = f"{path}{name}" if name.startswith("[") else f"{path}.{name}"
        if not name.startswith("["):
            facts = [kind(field), "required" if name in required else "", default(field), limits(field)]
            yield [code(place), "; ".join(filter(None, facts)), field.get("description", "")]
        yield from rows(field, place)


def below(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of an object, and the element of a list or a map."""
    yield from (schema.get("properties") or {}).items()
    if isinstance(schema.get("items"), Mapping):
        yield "[]", schema["items"]
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield "[KEY]", schema["additionalProperties"]


def rules(schema: Mapping[str, Any], path: str) -> Iterator[list[str]]:
    """The validation rules of a field and of those below it."""
    for each in schema.get("x-kubernetes-validations", []):
        yield [code(path) or "the object", each.get("message", ""), code(each["rule"])]
    for name, field in below(schema):
        yield from rules(field, f"{path}{name}" if name.startswith("[") or not path else f"{path}.{name}")


def kind(field: Mapping[str, Any]) -> str:
    """The type of a field, for a list with that of its elements."""
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "items" in field:
        return f"list of {kind(field['items'])}"
    if isinstance(field.get("additionalProperties"), Mapping):
        return f"map to {kind(field['additionalProperties'])}"
    return str(field.get("type", "any"))


def default(field: Mapping[str, Any]) -> str:
    """The default as JSON; nothing if there is none."""
    return f"default {code(json.dumps(field['default']))}" if "default" in field else ""


def limits(field: Mapping[str, Any]) -> str:
    """The permitted values."""
    found = [", ".join(code(each) for each in field["enum"])] if "enum" in field else []
    found += [text.format(field[name]) for name, text in LIMITS.items() if name in field]
    for kind, unit in (("Length", "characters"), ("Items", "items")):
        if f"max{kind}" in field:
            found.append(f"{field.get(f'min{kind}', 0)} to {field[f'max{kind}']} {unit}")
    return "; ".join(found)
