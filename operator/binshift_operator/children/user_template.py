"""A user's own pod template, merged under what binshift says of a pod: init containers, sidecars, scheduler, runtime class, DNS and so on. Pure.

Maps are merged, and so are lists whose items have names (containers, volumes, variables, mounts, ports); of everything else, and of an
item that both have, binshift's value stands. What would take a pod out of the Pod Security Standard `restricted`, or its containers out of binshift's hands, is refused.
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
}
"""Lists that are merged by items, and what tells these from each other; but for containers, an item is one side's as a whole."""
PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")
"""Of these, too: a probe has one way to ask, and a variable or a mount one source."""
DEFAULTED: Final = frozenset({"automountServiceAccountToken", "enableServiceLinks", "topologySpreadConstraints"})
"""Fields of a pod's spec that binshift only suggests: here the template's value stands."""
OWN_CONTAINERS: Final = frozenset({DRIVER, MASTER, WORKER})
OWN_FIELDS: Final = frozenset({"command", "args", "image", "lifecycle"})
"""Of binshift's own containers, what a template may not name."""
OWN_VARIABLES: Final = ("BINSHIFT_", "_SPARK_", "SPARK_CONF_DIR")
"""How those begin that only binshift sets; the CRD refuses them elsewhere."""
KINDS: Final = ("containers", "initContainers", "ephemeralContainers")
GRACE: Final = "terminationGracePeriodSeconds"
TWICE: Final = ("tolerations", "topologySpreadConstraints", "priorityClassName", "securityContext")
"""Fields of a pod's spec that the dataflow's spec has, too, and that are not merged."""
HOST: Final = ("hostNetwork", "hostPID", "hostIPC")


def template_of(dataflow: Dataflow, component: str) -> Mapping[str, Any]:
    """What the user's template says of a component's pods; empty if there is none."""
    pod = (dataflow.raw.get(component) or {}).get("pod") or {}
    return _map(pod.get("template"))


def spec_of(dataflow: Dataflow, component: str) -> Mapping[str, Any]:
    """The pod's spec in that template."""
    return _map(template_of(dataflow, component).get("spec"))


def merge_template(dataflow: Dataflow, component: str, ours: Manifest) -> Manifest:
    """The pod template: binshift's over the user's.

    Raises:
        ValueError: the user's names what it may not; the message says what, and what to do.
    """
    theirs = template_of(dataflow, component)
    if not theirs:
        return ours
    wrong = next(_refused(spec_of(dataflow, component)), None) or next(_overruled(dataflow, component, ours), None)
    if wrong is not None:
        raise ValueError(f"{component}.pod.template {wrong}: take it out of the template")
    spec = {
        name: each for name, each in ours["spec"].items() if name not in DEFAULTED & spec_of(dataflow, component).keys()
    }
    said = {name: theirs[name] for name in ("metadata", "spec") if name in theirs}
    if isinstance(said.get("spec"), Mapping):
        said["spec"] = _confined(said["spec"])
    found: Manifest = _under(said, {**ours, "spec": spec}, "")
    return found


def _confined(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template's spec, whose containers say what the standard asks of them."""
    lists = {kind: spec[kind] for kind in KINDS if isinstance(spec.get(kind), list)}
    return {**spec, **{kind: [restricted.confined(each) for each in found] for kind, found in lists.items()}}


def _under(theirs: Any, ours: Any, name: str) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping) and name not in PROBES:
        known = {key: _under(theirs[key], each, key) if key in theirs else each for key, each in ours.items()}
        return {**known, **{key: each for key, each in theirs.items() if key not in ours}}
    if isinstance(ours, list) and isinstance(theirs, list) and name in NAMED_BY:
        by = NAMED_BY[name]
        named = {each.get(by): each for each in theirs if isinstance(each, Mapping)}
        taken = {each.get(by) for each in ours}
        mixed = [_under(named.get(each.get(by), {}), each, "") if name == "containers" else each for each in ours]
        return mixed + [each for each in theirs if not isinstance(each, Mapping) or each.get(by) not in taken]
    return ours


def _overruled(dataflow: Dataflow, component: str, ours: Manifest) -> Iterator[str]:
    """What a template says to no avail, as a field of the spec is there for it."""
    spec, part = spec_of(dataflow, component), dataflow.raw.get(component) or {}
    accounts = (spec[name] for name in ("serviceAccountName", "serviceAccount") if spec.get(name))
    if any(each != ours["spec"]["serviceAccountName"] for each in accounts):
        yield "names a ServiceAccount, and spec.serviceAccountName is there for it"
    grace = spec.get(GRACE)
    if component == EXECUTOR and "drainTimeout" in part and grace not in (None, ours["spec"][GRACE]):
        yield f"names {GRACE}, which follows from executor.drainTimeout"
    pod = _map(part.get("pod"))
    twice = (name for name in TWICE if pod.get(name) and spec.get(name) and pod[name] != spec[name])
    yield from (f"names {name}, and {component}.pod.{name} names others" for name in twice)


def _refused(spec: Mapping[str, Any]) -> Iterator[str]:
    """What a template may not say."""
    yield from (f"asks for {name}" for name in HOST if spec.get(name))
    for volume in _maps(spec.get("volumes")):
        yield from (f"has volume {volume.get('name')} of kind {kind}" for kind in restricted.kinds(volume))
        if str(volume.get("name", "")).startswith("binshift-"):
            yield f"has volume {volume.get('name')}, and names that begin with binshift- are taken"
    yield from (f"has {said}" for said in restricted.broken(spec.get("securityContext")))
    for kind in KINDS:
        for container in _maps(spec.get(kind)):
            yield from _refused_of(container, kind)


def _refused_of(container: Mapping[str, Any], kind: str) -> Iterator[str]:
    name = container.get("name")
    if name in OWN_CONTAINERS and kind != "containers":
        yield f"has {name} among its {kind}"
    if name in OWN_CONTAINERS:
        yield from (f"names {field} of container {name}" for field in sorted(OWN_FIELDS & container.keys()))
        variables = (str(each.get("name", "")) for each in _maps(container.get("env")))
        yield from (f"names {each} of container {name}" for each in variables if each.startswith(OWN_VARIABLES))
    yield from (f"has container {name} with {said}" for said in restricted.broken(container.get("securityContext")))
    if any("hostPort" in port for port in _maps(container.get("ports"))):
        yield f"has container {name} with a hostPort"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
