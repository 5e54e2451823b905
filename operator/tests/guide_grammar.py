"""Checks a guide's commands against the definition, the chart's values, `binshift --help` and the names in use.

kubectl itself is not run, as it may be missing: its verbs and options that the guides use are listed here.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema
from crd_cases import BASE
from guide_commands import problems_of_binshift, problems_of_plugin
from guide_resources import RESOURCES, Resource, field_at
from guides import ROOT
from test_crd import validate

from binshift.ports import Ports
from binshift_operator.model import names

SELECTING = {"--selector", "--field-selector", "--namespace", "--all-namespaces", "--output", "--watch"}
VERBS: Mapping[str, set[str]] = {
    "annotate": {"--namespace"},
    "apply": {"--filename", "--server-side", "--force-conflicts", "--namespace"},
    "create": {"--from-literal", "--from-file", "--type", "--clusterrole", "--user", "--namespace"},
    "delete": {"--timeout", "--wait", "--namespace"},
    "describe": {"--namespace"},
    "drain": {"--ignore-daemonsets", "--delete-emptydir-data", "--timeout"},
    "events": {"--for", "--namespace"},
    "exec": {"--container", "--namespace"},
    "explain": set(),
    "get": SELECTING | {"--raw"},
    "label": {"--namespace"},
    "logs": {"--container", "--tail", "--previous", "--namespace"},
    "port-forward": set(),
    "patch": {"--type", "--patch", "--namespace"},
    "rollout": {"--timeout", "--namespace"},
    "scale": {"--replicas", "--namespace"},
    "cordon": set(),
    "taint": set(),
    "uncordon": set(),
    "wait": {"--for", "--timeout", "--namespace"},
}
"""Of kubectl."""
SHORT = {"-c": "--container", "-f": "--filename", "-o": "--output", "-n": "--namespace", "-l": "--selector"}
FLAGS = {
    *("--all-namespaces", "--server-side", "--force-conflicts", "--ignore-daemonsets", "--delete-emptydir-data"),
    *("--previous", "--watch", "--wait"),
    *("--create-namespace", "--reuse-values", "--reset-then-reuse-values", "--install"),
}
"""Options without a value; `--wait` may have one, with an equals sign."""
HELM: Mapping[str, set[str]] = {
    "install": {"--create-namespace", "--set", "--wait"},
    "upgrade": {"--create-namespace", "--install", "--reuse-values", "--reset-then-reuse-values", "--set"},
    "rollback": {"--wait"},
    "test": set(),
}
OTHERS = {
    *("cm", "deployment", "events", "hpa", "nodes", "pdb", "pod", "pods", "pvc", "resourcequota"),
    *("secret", "secrets", "sts", "svc"),
}
CONTAINERS = {names.DRIVER, names.MASTER, names.WORKER}
LABELS = {
    *(names.LABEL_INSTANCE, names.LABEL_MANAGED_BY, names.LABEL_COMPONENT, names.LABEL_UID, names.LABEL_NAME),
    *(names.LABEL_DATAFLOW, names.LABEL_PERIODIC),
}
OUTPUTS = {"wide", "json", "yaml", "name"}
POD = re.compile(r"(minimal|NAME)-(driver-0|executor-\d+)|verify|deployment/binshift-operator")
VALUES = json.loads((ROOT / "charts" / "binshift" / "values.schema.json").read_text(encoding="utf-8"))
CHART = "charts/binshift"


def problems(arguments: Sequence[str]) -> list[str]:
    """What is wrong with a command; nothing for those of other tools, and for where its output goes."""
    arguments = arguments[: arguments.index(">")] if ">" in arguments else arguments
    check = {"kubectl": _kubectl, "helm": _helm, "binshift": problems_of_binshift}.get(arguments[0])
    return [] if check is None else list(check(arguments[1:]))


def split(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Positional arguments and options with their values."""
    given, options, place = list[str](), list[tuple[str, str]](), 0
    while place < len(arguments):
        name, equals, value = arguments[place].partition("=")
        name, place = SHORT.get(name, name), place + 1
        if not name.startswith("-"):
            given.append(arguments[place - 1])
        elif equals or name in FLAGS:
            options.append((name, value))
        else:
            options.append((name, arguments[place] if place < len(arguments) else ""))
            place += 1
    return given, options


def value_at(path: str) -> Mapping[str, Any] | None:
    """The schema of one of the chart's values; None if there is none."""
    place: Any = VALUES
    for name in path.split("."):
        properties, more = place.get("properties") or {}, place.get("additionalProperties")
        place = properties.get(name) or (more if isinstance(more, Mapping) else None)
        if place is None:
            return {} if not properties and name != path else None
        if "$ref" in place:
            place = VALUES["definitions"][place["$ref"].rpartition("/")[2]]
    return place  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------------------------------- kubectl


def _kubectl(arguments: Sequence[str]) -> Iterator[str]:
    before, _, inner = (list(arguments), "", []) if "--" not in arguments else _parted(arguments)
    given, options = split(before)
    if given[:1] == ["binshift"]:
        yield from problems_of_plugin(arguments[1:])
        return
    if not given or given[0] not in VERBS:
        yield f"kubectl has no {given[:1]}"
        return
    verb, *rest = given
    yield from (f"kubectl {verb} has no {name}" for name, _ in options if name not in VERBS[verb])
    kinds = _kinds(verb, rest)
    yield from (f"there is no kind {kind}" for kind in kinds - RESOURCES.keys() - OTHERS)
    resource = next((RESOURCES[kind] for kind in sorted(kinds) if kind in RESOURCES), None)
    if verb in ("logs", "exec", "port-forward") and not POD.fullmatch(rest[0]):
        yield f"{rest[0]} is no pod"
    if verb == "port-forward" and {int(port) for port in rest[1:]} - set(dataclasses.astuple(Ports())):
        yield f"no port of a dataflow is {rest[1:]}"
    if verb == "annotate" and re.sub("=.*|-$", "", rest[1]) != names.ANNOTATION_PAUSED:
        yield f"there is no annotation {rest[1]}"
    if verb == "label" and re.sub("=.*|-$", "", rest[1]) not in LABELS:
        yield f"there is no label {rest[1]}"
    if verb == "explain" and (resource is None or field_at(rest[0].partition(".")[2], resource) is None):
        yield f"there is no field {rest[0]}"
    for name, value in options:
        yield from _option(name, value, verb, resource)
    yield from problems(inner) if inner else ()


def _parted(arguments: Sequence[str]) -> tuple[list[str], str, list[str]]:
    place = list(arguments).index("--")
    return list(arguments[:place]), "--", list(arguments[place + 1 :])


def _kinds(verb: str, rest: Sequence[str]) -> set[str]:
    if verb in ("annotate", "get", "describe", "delete", "label", "wait", "scale", "patch") and rest:
        return {each.partition("/")[0] for each in rest[0].split(",")}
    return {rest[0].partition(".")[0]} if verb == "explain" else {"nodes"} if verb == "taint" else set()


def _option(name: str, value: str, verb: str, resource: Resource | None) -> Iterator[str]:
    if name == "--for" and verb == "wait":
        yield from _awaited(value, resource)
    elif name == "--output" and value.startswith("jsonpath="):
        yield from _path(value.removeprefix("jsonpath="), resource)
    elif name == "--output" and value not in OUTPUTS:
        yield f"there is no output {value}"
    elif name == "--patch":
        yield from _patch(value)
    elif name == "--filename" and not (ROOT / value).exists():
        yield f"there is no file {value}"
    elif name == "--container" and value not in CONTAINERS:
        yield f"there is no container {value}"
    elif name == "--selector":
        yield from (f"there is no label {each}" for each in value.split(",") if each.partition("=")[0] not in LABELS)
    elif name == "--raw" and f":{Ports().health}/proxy/metrics" not in value:
        yield f"nothing answers at {value}"


def _awaited(value: str, resource: Resource | None) -> Iterator[str]:
    how, _, what = value.partition("=")
    if how == "condition":
        if resource is not None and what.partition("=")[0] not in resource.conditions:
            yield f"there is no condition {what}"
    elif how == "jsonpath":
        path, _, wanted = what.partition("}")
        yield from _path(path + "}", resource)
        if path == "{.status.phase" and resource is not None and wanted.removeprefix("=") not in resource.phases:
            yield f"there is no phase {wanted}"
    else:
        yield f"no condition or field allows to wait for {value}"


def _path(template: str, resource: Resource | None) -> Iterator[str]:
    key = re.fullmatch(r"\{\.data\.([\w-]+)\}", template)
    if key and key[1] not in names.KEYS:
        yield f"no Secret has the key {key[1]}"
    if resource is not None and field_at(template.strip("{}"), resource) is None:
        yield f"there is no field {template}"


def _patch(value: str) -> Iterator[str]:
    made, change = copy.deepcopy(BASE), json.loads(value)
    made["spec"] |= change.pop("spec", {})
    if change:
        yield f"only the spec belongs to the user, not {sorted(change)}"
    try:
        validate(made)
    except jsonschema.ValidationError as wrong:
        yield wrong.message


# ------------------------------------------------------------------------------------------------- helm and binshift


def _helm(arguments: Sequence[str]) -> Iterator[str]:
    given, options = split(arguments)
    verb = given[0]
    yield from (f"helm {verb} has no {name}" for name, _ in options if name not in HELM[verb] | {"--namespace"})
    if verb in ("install", "upgrade") and given[1:] != ["binshift", CHART]:
        yield f"the chart is {CHART}, and the release binshift, not {given[1:]}"
    for path, _, value in (value.partition("=") for name, value in options if name == "--set"):
        schema = value_at(path)
        if schema is None:
            yield f"the chart has no value {path}"
            continue
        parsed: Any = value.strip("{}").split(",") if value.startswith("{") else value
        numeric = schema.get("type") in ("integer", "number")
        with contextlib.suppress(ValueError):
            parsed = float(parsed) if numeric else parsed
        parsed = {"null": None, "true": True, "false": False}.get(str(parsed), parsed)  # as Helm takes it
        errors = jsonschema.Draft7Validator({**schema, "definitions": VALUES["definitions"]}).iter_errors(parsed)
        yield from (f"{path}: {error.message}" for error in errors)
