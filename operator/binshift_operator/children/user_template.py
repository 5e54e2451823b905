"""The user's pod template, merged with binshift's: init containers, sidecars, scheduler, runtime class, DNS and so on. Pure.

Maps are merged, and so are lists whose items have names (containers, volumes, variables, mounts, ports); of everything else, and of items
that both have, binshift's value takes precedence. A template is rejected if it would violate the Pod Security Standard `restricted`, or
change what binshift must control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from binshift_operator.children import restricted
from binshift_operator.children.metadata import Manifest
from binshift_operator.model.names import DRIVER, EXECUTOR, MASTER, WORKER
from binshift_operator.model.specification import Dataflow

NAMED_BY: Final = {
    "containers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "name",
    "volumeMounts": "mountPath",
    "hostAliases": "ip",
}
"""Lists that are merged item by item, and the key of an item; only containers are merged themselves."""
PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")
"""Never merged: a probe has one handler."""
DEFAULTED: Final = frozenset({"automountServiceAccountToken", "enableServiceLinks", "topologySpreadConstraints"})
"""Fields of a pod's spec in which the template's value takes precedence."""
OWN_CONTAINERS: Final = frozenset({DRIVER, MASTER, WORKER})
OWN_FIELDS: Final = frozenset({"command", "args", "image", "lifecycle"})
"""Fields of binshift's own containers that a template must not set."""
OWN_VARIABLES: Final = ("BINSHIFT_", "_SPARK_", "SPARK_CONF_DIR")
"""Prefixes of variables that only binshift sets; the CRD rejects them elsewhere."""
KINDS: Final = ("containers", "initContainers", "ephemeralContainers")
GRACE: Final = "terminationGracePeriodSeconds"
TWICE: Final = ("tolerations", "topologySpreadConstraints", "priorityClassName", "securityContext")
"""Fields of a pod's spec that the dataflow's spec also has, and that are not merged."""
HOST: Final = ("hostNetwork", "hostPID", "hostIPC")


def template_of(dataflow: Dataflow, component: str) -> Mapping[str, Any]:
    """The user's template for a component's pods; empty if there is none."""
    return _map(dataflow.section(component, "pod").get("template"))


def spec_of(dataflow: Dataflow, component: str) -> Mapping[str, Any]:
    """The pod's spec in that template."""
    return _map(template_of(dataflow, component).get("spec"))


def merge_template(dataflow: Dataflow, component: str, ours: Manifest) -> Manifest:
    """The merged pod template.

    Raises:
        ValueError: the user's template has a field that it must not have; the message names it, and the remedy.
    """
    theirs = template_of(dataflow, component)
    if not theirs:
        return ours
    wrong = next(_forbidden(spec_of(dataflow, component)), None) or next(_conflicting(dataflow, component, ours), None)
    if wrong is not None:
        raise ValueError(f"{component}.pod.template {wrong}: remove it from the template")
    spec = {
        name: each for name, each in ours["spec"].items() if name not in DEFAULTED & spec_of(dataflow, component).keys()
    }
    given = {name: theirs[name] for name in ("metadata", "spec") if name in theirs}
    if isinstance(given.get("spec"), Mapping):
        given["spec"] = _restrict(given["spec"])
    found: Manifest = _merge(given, {**ours, "spec": spec}, "")
    return found


def _restrict(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template's spec, whose containers have the security context that the standard requires."""
    lists = {kind: spec[kind] for kind in KINDS if isinstance(spec.get(kind), list)}
    return {**spec, **{kind: [restricted.with_defaults(each) for each in found] for kind, found in lists.items()}}


def _merge(theirs: Any, ours: Any, name: str) -> Any:
    """Both values of the field ``name``; ours takes precedence."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and name not in PROBES:
        known = {key: _merge(theirs[key], each, key) if key in theirs else each for key, each in ours.items()}
        return {**known, **{key: each for key, each in theirs.items() if key not in ours}}
    if isinstance(ours, list) and isinstance(theirs, list) and name in NAMED_BY:
        by = NAMED_BY[name]
        named = {each.get(by): each for each in theirs if isinstance(each, Mapping)}
        taken = {each.get(by) for each in ours}
        mixed = [_merge(named.get(each.get(by), {}), each, "") if name == "containers" else each for each in ours]
        return mixed + [each for each in theirs if not isinstance(each, Mapping) or each.get(by) not in taken]
    return ours


def _conflicting(dataflow: Dataflow, component: str, ours: Manifest) -> Iterator[str]:
    """Fields of a template for which the dataflow's spec has a field of its own."""
    spec, part = spec_of(dataflow, component), dataflow.section(component)
    accounts = (spec[name] for name in ("serviceAccountName", "serviceAccount") if spec.get(name))
    if any(each != ours["spec"]["serviceAccountName"] for each in accounts):
        yield "names a ServiceAccount, which belongs in spec.serviceAccountName"
    grace = spec.get(GRACE)
    if component == EXECUTOR and "drainTimeout" in part and grace not in (None, ours["spec"][GRACE]):
        yield f"names {GRACE}, which follows from executor.drainTimeout"
    pod = _map(part.get("pod"))
    twice = (name for name in TWICE if pod.get(name) and spec.get(name) and pod[name] != spec[name])
    yield from (f"names {name}, and {component}.pod.{name} names others" for name in twice)


def _forbidden(spec: Mapping[str, Any]) -> Iterator[str]:
    """Fields that a template must not have."""
    yield from (f"requests {name}" for name in HOST if spec.get(name))
    for volume in _maps(spec.get("volumes")):
        yield from (f"has volume {volume.get('name')} of kind {kind}" for kind in restricted.forbidden_kinds(volume))
        if str(volume.get("name", "")).startswith("binshift-"):
            yield f"has volume {volume.get('name')}, and names that begin with binshift- are taken"
    yield from (f"has {each}" for each in restricted.violations(spec.get("securityContext")))
    for kind in KINDS:
        for container in _maps(spec.get(kind)):
            yield from _forbidden_in(container, kind)


def _forbidden_in(container: Mapping[str, Any], kind: str) -> Iterator[str]:
    name = container.get("name")
    if name in OWN_CONTAINERS and kind != "containers":
        yield f"has {name} among its {kind}"
    if name in OWN_CONTAINERS:
        yield from (f"names {field} of container {name}" for field in sorted(OWN_FIELDS & container.keys()))
        variables = (str(each.get("name", "")) for each in _maps(container.get("env")))
        yield from (f"names {each} of container {name}" for each in variables if each.startswith(OWN_VARIABLES))
    violations = restricted.violations(container.get("securityContext"))
    yield from (f"has container {name} with {each}" for each in violations)
    if any("hostPort" in port for port in _maps(container.get("ports"))):
        yield f"has container {name} with a hostPort"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
