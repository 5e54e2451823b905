"""The operator's configuration, from environment variables.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_NAMESPACES`` | namespaces to serve, separated by commas; empty: all | all |
| ``BINSHIFT_SELECTOR`` | label selector of the dataflows to serve; empty: all | all |
| ``BINSHIFT_NAMESPACE`` | the operator's namespace, for its Lease and the network policies of dataflows | binshift |
| ``BINSHIFT_POD`` | the operator's pod | the host name |
| ``BINSHIFT_LEASE`` | the Lease that the active process of the operator holds; empty: no Lease, this process is always active | none |
| ``BINSHIFT_APP`` | the label ``app.kubernetes.io/name`` of the operator's pods | binshift |
| ``BINSHIFT_HTTP_PORT`` | port of health and metrics | 8080 |
| ``BINSHIFT_WORKERS`` | dataflows reconciled concurrently | 16 |
| ``BINSHIFT_RESYNC_SECONDS`` | between two listings of all dataflows; also the maximum age of a cached observation | 60 |
| ``BINSHIFT_CONTROL_ADDRESS`` | URL of a driver's control API, with ``{ip}`` (required for a standby driver), ``{pod}``, ``{service}``, ``{namespace}`` | the pod's IP |
| ``BINSHIFT_POD_SECURITY_CONTEXT`` | user and groups of dataflows' pods that name none, as JSON | 10001 |
| ``BINSHIFT_LOG_LEVEL`` | debug, info, warning or error | info |
| ``BINSHIFT_<LIMIT>`` | each of `model.situation.Timeouts`, such as ``BINSHIFT_REGISTRATION_WAIT_SECONDS`` | see there |
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from binshift import __version__
from binshift_operator.children import RenderContext
from binshift_operator.children.metadata import PORTS
from binshift_operator.errors import InvalidConfiguration
from binshift_operator.model.names import DataflowKey
from binshift_operator.model.situation import Timeouts

ADDRESS = f"http://{{ip}}:{PORTS.control}"
"""The pod's IP: no name service can delay a reconciliation, and a new driver needs no DNS record."""
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Configuration:
    """See the table above."""

    namespaces: tuple[str, ...] = ()
    selector: str = ""
    lease: str = ""
    pod: str = field(default_factory=socket.gethostname)
    render_context: RenderContext = field(default_factory=RenderContext)
    http_port: int = 8080
    workers: int = 16
    resync_seconds: float = 60.0
    control_address: str = ADDRESS
    log_level: str = "info"
    timeouts: Timeouts = field(default_factory=Timeouts)

    @property
    def name(self) -> str:
        """The name of this process of the operator in messages."""
        return f"{self.render_context.namespace}/{self.pod} ({__version__})"

    def address(self, key: DataflowKey, ip: str) -> str | None:
        """The URL of a dataflow's control API, from the IP of the driver's pod; None while it has none.

        >>> Configuration().address(DataflowKey("ns", "clicks", "u"), "10.0.0.7")
        'http://10.0.0.7:7400'
        >>> Configuration().address(DataflowKey("ns", "clicks", "u"), "fd00::7")
        'http://[fd00::7]:7400'
        """
        if not ip and "{ip}" in self.control_address:
            return None
        host = f"[{ip}]" if ":" in ip else ip
        return self.control_address.format(ip=host, pod=f"{key.driver}-0", service=key.driver, namespace=key.namespace)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Configuration:
        """The configuration in these variables; see the table above.

        Raises:
            InvalidConfiguration: a variable is invalid; the message names it.
        """
        usual = cls()
        limits = {
            each.name: _number(environment, f"BINSHIFT_{each.name.upper()}", getattr(usual.timeouts, each.name))
            for each in fields(Timeouts)
        }
        namespace = environment.get("BINSHIFT_NAMESPACE") or usual.render_context.namespace
        pod = environment.get("BINSHIFT_POD") or usual.pod
        level = (environment.get("BINSHIFT_LOG_LEVEL") or usual.log_level).lower()
        if level not in LEVELS:
            raise InvalidConfiguration(f"BINSHIFT_LOG_LEVEL is {level[:20]!r}; it must be one of {', '.join(LEVELS)}")
        return cls(
            namespaces=tuple(filter(None, (n.strip() for n in environment.get("BINSHIFT_NAMESPACES", "").split(",")))),
            selector=environment.get("BINSHIFT_SELECTOR", "").strip(),
            lease=environment.get("BINSHIFT_LEASE", ""),
            pod=pod,
            render_context=RenderContext(
                namespace,
                environment.get("BINSHIFT_APP") or usual.render_context.app,
                _security(
                    environment.get("BINSHIFT_POD_SECURITY_CONTEXT", ""), usual.render_context.pod_security_context
                ),
            ),
            http_port=int(_number(environment, "BINSHIFT_HTTP_PORT", usual.http_port)),
            workers=max(1, int(_number(environment, "BINSHIFT_WORKERS", usual.workers))),
            resync_seconds=_number(environment, "BINSHIFT_RESYNC_SECONDS", usual.resync_seconds),
            control_address=environment.get("BINSHIFT_CONTROL_ADDRESS") or usual.control_address,
            log_level=level,
            timeouts=Timeouts(**limits),
        )


def _security(given: str, usual: Mapping[str, Any]) -> Mapping[str, Any]:
    if not given:
        return usual
    try:
        found = json.loads(given) or {}
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise InvalidConfiguration(f"BINSHIFT_POD_SECURITY_CONTEXT is {given[:80]!r}; it must be a JSON object or null")
    return found


def _number(environment: Mapping[str, str], variable: str, usual: float) -> float:
    given = environment.get(variable) or str(usual)
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise InvalidConfiguration(f"{variable} is {given[:20]!r}; it must be a number above 0")
    return number
