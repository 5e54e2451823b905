"""The page of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docs_site.markdown import code, table
from prometheus_client.registry import CollectorRegistry

from binshift.control.app import control_app
from binshift.control.auth import Tokens
from binshift.control.service_holder import ServiceHolder

OF_ONE_QUERY: Final = "/v1/queries/{query}"
"""The same calls for one query of several."""
OF_EVERY_CALL: Final = ("401", "403", "422", "503")
"""Answers that each call below /v1 can have."""


def document() -> Mapping[str, Any]:
    """The OpenAPI document, as a driver serves it."""
    found: Mapping[str, Any] = control_app(ServiceHolder(), Tokens(), CollectorRegistry()).openapi()
    return found


def page() -> str:
    """The page."""
    found = document()
    calls = "\n".join(
        call(method, path, operation)
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
        if not path.startswith(OF_ONE_QUERY)
    )
    schemas = "\n".join(schema(name, each) for name, each in found["components"]["schemas"].items())
    return f"""# HTTP API

Generated from the OpenAPI document, which a driver serves at `/openapi.json`. Calls below `/v1` need the header
`Authorization: Bearer TOKEN`; health and metrics do not. If a program has several queries, `{OF_ONE_QUERY}/...` addresses one of them with each
of the calls below `/v1`. Errors have the form of RFC 9457, `application/problem+json`. Each call below `/v1` can also have
the status 401 (no token), 403 (the token does not permit it), 422 (invalid parameters or body) and 503 (not now: try again).

{calls}
## Objects

{schemas}"""


def call(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """One call: effect, parameters, body and answers."""
    parts = [f"## {method.upper()} {path}\n", operation["description"].replace("``", "`") + "\n"]
    given = [
        [code(each["name"]), each["in"], kind(each["schema"]), each.get("description") or limits(each["schema"])]
        for each in operation.get("parameters", [])
    ]
    if given:
        parts.append(table(["parameter", "in", "type", "meaning"], given))
    if "requestBody" in operation:
        parts.append(f"Body: {_content(operation['requestBody'])}.\n")
    answers = [
        [status, each["description"], _content(each)]
        for status, each in sorted(operation["responses"].items())
        if status not in OF_EVERY_CALL or not path.startswith("/v1/")
    ]
    parts.append(table(["status", "meaning", "body"], answers))
    return "\n".join(parts)


def schema(name: str, found: Mapping[str, Any]) -> str:
    """One object: its fields, or its values."""
    about = str(found.get("description", "")).partition("\n\n")[0].replace("``", "`")
    head = f"### {name}\n\n{about}\n"
    if "enum" in found:
        return head + "\nOne of " + ", ".join(code(each) for each in found["enum"]) + ".\n"
    required = found.get("required", [])
    rows = [
        [code(key), kind(each), "" if key in required else _default(each), each.get("description", "") or limits(each)]
        for key, each in found.get("properties", {}).items()
    ]
    return head + "\n" + table(["field", "type", "if omitted", "meaning"], rows)


def kind(found: Mapping[str, Any]) -> str:
    """The type of a value; objects are links."""
    if "$ref" in found:
        name = found["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in found:
        return " or ".join(kind(each) for each in found["anyOf"])
    if "items" in found:
        return f"list of {kind(found['items'])}"
    if isinstance(found.get("additionalProperties"), Mapping):
        return f"map to {kind(found['additionalProperties'])}"
    return ", ".join(code(each) for each in found["enum"]) if "enum" in found else str(found.get("type", "any"))


def limits(found: Mapping[str, Any]) -> str:
    """The permitted values, and the default."""
    return ", ".join(_limits(found))


def _limits(found: Mapping[str, Any]) -> Iterator[str]:
    for name, text in (("minimum", "at least"), ("maximum", "at most"), ("maxLength", "characters at most")):
        if name in found:
            yield f"{text} {found[name]}"
    if found.get("default") is not None:
        yield f"default {found['default']}"


def _default(found: Mapping[str, Any]) -> str:
    return code("null" if found.get("default") is None else found["default"])


def _content(answer: Mapping[str, Any]) -> str:
    kinds = [kind(each.get("schema", {})) for each in answer.get("content", {}).values()]
    return ", ".join(each for each in kinds if each != "any")
