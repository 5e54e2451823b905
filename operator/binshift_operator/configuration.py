"""What the operator's environment tells it.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_NAMESPACES`` | namespaces to serve, with commas; empty: all | all |
| ``BINSHIFT_NAMESPACE`` | the operator's own, for the network policies of dataflows | binshift |
| ``BINSHIFT_APP`` | the label ``app.kubernetes.io/name`` of the operator's pods | binshift |
| ``BINSHIFT_HTTP_PORT`` | of health and metrics | 8080 |
| ``BINSHIFT_WORKERS`` | dataflows looked at at one time | 4 |
| ``BINSHIFT_RESYNC_SECONDS`` | between two listings of all dataflows, and within which everything about each is read again | 60 |
| ``BINSHIFT_CONTROL_ADDRESS`` | where a driver's control API is, with ``{pod}``, ``{service}``, ``{namespace}`` | its name in the cluster |
| ``BINSHIFT_LOG_LEVEL`` | debug, info, warning or error | info |
| ``BINSHIFT_<LIMIT>`` | each of `decide.Limits`, such as ``BINSHIFT_REGISTRATION_WAIT_SECONDS`` | there |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from binshift_operator.children import Surroundings
from binshift_operator.children.metadata import PORTS
from binshift_operator.decide import Limits
from binshift_operator.errors import InvalidConfiguration
from binshift_operator.model.names import Key

ADDRESS = f"http://{{pod}}.{{service}}.{{namespace}}.svc:{PORTS.control}"
LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Configuration:
    """See the table above."""

    namespaces: tuple[str, ...] = ()
    around: Surroundings = field(default_factory=Surroundings)
    http_port: int = 8080
    workers: int = 4
    resync_seconds: float = 60.0
    control_address: str = ADDRESS
    log_level: str = "info"
    limits: Limits = field(default_factory=Limits)

    def address(self, key: Key) -> str:
        """Where the control API of a dataflow is.

        >>> Configuration().address(Key("ns", "clicks", "u"))
        'http://clicks-driver-0.clicks-driver.ns.svc:7400'
        """
        return self.control_address.format(pod=f"{key.driver}-0", service=key.driver, namespace=key.namespace)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Configuration:
        """As the table above says.

        Raises:
            InvalidConfiguration: a variable does not fit; the message names it.
        """
        usual = cls()
        limits = {
            each.name: _number(environment, f"BINSHIFT_{each.name.upper()}", getattr(usual.limits, each.name))
            for each in fields(Limits)
        }
        level = (environment.get("BINSHIFT_LOG_LEVEL") or usual.log_level).lower()
        if level not in LEVELS:
            raise InvalidConfiguration(f"BINSHIFT_LOG_LEVEL is {level[:20]!r}; it must be one of {', '.join(LEVELS)}")
        return cls(
            namespaces=tuple(filter(None, (n.strip() for n in environment.get("BINSHIFT_NAMESPACES", "").split(",")))),
            around=Surroundings(
                environment.get("BINSHIFT_NAMESPACE") or usual.around.namespace,
                environment.get("BINSHIFT_APP") or usual.around.app,
            ),
            http_port=int(_number(environment, "BINSHIFT_HTTP_PORT", usual.http_port)),
            workers=max(1, int(_number(environment, "BINSHIFT_WORKERS", usual.workers))),
            resync_seconds=_number(environment, "BINSHIFT_RESYNC_SECONDS", usual.resync_seconds),
            control_address=environment.get("BINSHIFT_CONTROL_ADDRESS") or usual.control_address,
            log_level=level,
            limits=Limits(**limits),
        )


def _number(environment: Mapping[str, str], variable: str, usual: float) -> float:
    given = environment.get(variable) or str(usual)
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise InvalidConfiguration(f"{variable} is {given[:20]!r}; it must be a number above 0")
    return number
