"""The Pod Security Standard `restricted`, for the parts of a spec in which users can violate it: security contexts and kinds of volumes.

Both are allowlists: everything else is rejected by name. The API server enforces the standard on pods, not on the templates of a
StatefulSet: it accepts a template that violates the standard, and no pod can be created from it. So this is checked before a query stops.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from binshift_operator.children.metadata import Manifest

USUAL: Final[Manifest] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""Required of each container."""
PROFILES: Final = ("RuntimeDefault", "Localhost")
SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)


def _anything(value: Any) -> bool:
    return True


def _profile(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") in PROFILES


def _capabilities(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    dropped = value.get("drop")
    added_is_fine = (value.get("add") or []) in ([], ["NET_BIND_SERVICE"])
    return added_is_fine and (dropped is None or (isinstance(dropped, list) and "ALL" in dropped))


def _selinux(value: Any) -> bool:
    named = isinstance(value, Mapping) and not (value.get("user") or value.get("role"))
    return named and value.get("type", "") in SELINUX_TYPES


def _sysctls(value: Any) -> bool:
    items = value if isinstance(value, list) else [None]
    return all(isinstance(each, Mapping) and str(each.get("name")) in SYSCTLS for each in items)


ALLOWED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "allowPrivilegeEscalation": lambda value: value is False,
    "privileged": lambda value: value is False,
    "runAsNonRoot": lambda value: value is True,
    "runAsUser": lambda value: value != 0,
    "capabilities": _capabilities,
    "seccompProfile": _profile,
    "appArmorProfile": _profile,
    "seLinuxOptions": _selinux,
    "procMount": lambda value: value == "Default",
    "sysctls": _sysctls,
    **dict.fromkeys(("runAsGroup", "fsGroup", "fsGroupChangePolicy", "supplementalGroups"), _anything),
    **dict.fromkeys(("supplementalGroupsPolicy", "seLinuxChangePolicy", "readOnlyRootFilesystem"), _anything),
}
"""By the field of a security context, of a pod or of a container, whether a value is allowed."""


def violations(context: Any) -> Iterator[str]:
    """The fields of a security context that are not allowed."""
    for name, value in (context if isinstance(context, Mapping) else {}).items():
        if value is not None and not ALLOWED.get(name, lambda _: False)(value):
            yield f"{name}: {json.dumps(value)}"


def forbidden_kinds(volume: Mapping[str, Any]) -> list[str]:
    """Kinds of a volume that are not allowed."""
    return sorted(kind for kind, each in volume.items() if each is not None and kind not in {*VOLUMES, "name"})


def with_defaults(container: Any) -> Any:
    """A container without violations, with the required fields of its security context where it has none."""
    if not isinstance(container, Mapping):
        return container
    context = {**USUAL, **_set_fields(container.get("securityContext"))}
    context["capabilities"] = {**USUAL["capabilities"], **_set_fields(context["capabilities"])}
    return {**container, "securityContext": context}


def _set_fields(value: Any) -> Manifest:
    return {name: each for name, each in (value or {}).items() if each is not None}
