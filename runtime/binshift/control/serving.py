"""Puts the control API of one program together: the services, the metrics and two servers.

`serve` starts it before there is a query; `Control.attach` binds the query when it has started. Ports and tokens come from the
environment, set by the creator of the process, never by the program.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_CONTROL_HOST`` | address to listen on | 127.0.0.1 |
| ``BINSHIFT_CONTROL_PORT`` | port of the API; 0: any | 0 |
| ``BINSHIFT_HEALTH_PORT`` | port of health and metrics; 0: any | 0 |
| ``BINSHIFT_TOKEN``, ``BINSHIFT_TOKEN_FILE`` | opens everything | none: the API is closed |
| ``BINSHIFT_DRAIN_TOKEN``, ``BINSHIFT_DRAIN_TOKEN_FILE`` | may only drain workers | none |
| ``BINSHIFT_TLS_DIRECTORY`` | folder with ``tls.crt`` and ``tls.key``, with which both ports speak TLS | none: plain HTTP |
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client.registry import CollectorRegistry

from binshift.control.app import control_app, health_app
from binshift.control.auth import Tokens
from binshift.control.program_metrics import ProgramMetrics
from binshift.control.query_protocol import RunningQuery
from binshift.control.query_service import QueryService
from binshift.control.requests import TargetRequest
from binshift.control.server import ControlServer, bind
from binshift.control.service_holder import ServiceHolder
from binshift.encryption import TLS_VARIABLE
from binshift.errors import BinshiftError, InvalidSettings
from binshift.ports import PORT_MAX

log = logging.getLogger(__name__)

HOST_VARIABLE: Final = "BINSHIFT_CONTROL_HOST"
PORT_VARIABLE: Final = "BINSHIFT_CONTROL_PORT"
HEALTH_PORT_VARIABLE: Final = "BINSHIFT_HEALTH_PORT"


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Where the control API listens, and for whom.

    Attributes:
        host: an address of this machine; ``0.0.0.0`` in a pod.
        port: of the API; 0 for any.
        health_port: of health and metrics; 0 for any.
        tokens: who is let in.
        tls: the folder of the certificate of both ports; None for plain HTTP.
    """

    host: str = "127.0.0.1"
    port: int = 0
    health_port: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    tls: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ControlSettings:
        """From the variables in the table above.

        Raises:
            InvalidSettings: a variable does not fit; the message names it.
        """
        return cls(
            environment.get(HOST_VARIABLE) or cls().host,
            _port(environment, PORT_VARIABLE),
            _port(environment, HEALTH_PORT_VARIABLE),
            Tokens.from_environment(environment),
            tls_directory(environment),
        )


class Listeners(NamedTuple):
    """Sockets that are bound already, and outlive every server on them.

    Attributes:
        api: of the API.
        health: of health and metrics.
    """

    api: socket.socket
    health: socket.socket

    @classmethod
    def of(cls, settings: ControlSettings) -> Listeners:
        """Bind both.

        Raises:
            InvalidSettings: a port is taken or not allowed; the message names it.
        """
        api = bind(settings.host, settings.port)
        try:
            return cls(api, bind(settings.host, settings.health_port))
        except BaseException:
            api.close()
            raise


class Control:
    """The running control API; made by `serve`.

    Args:
        settings: where it listens, and for whom.
        listeners: sockets to use instead of the settings' ports.

    Attributes:
        services: what answers.
        registry: what ``/metrics`` shows.
        api: the server of the API.
        health: the server of health and metrics.
    """

    def __init__(self, settings: ControlSettings, listeners: Listeners | None = None) -> None:
        self.services = ServiceHolder()
        self._queries: list[RunningQuery] = []
        self._attaching = threading.Lock()
        self.registry = CollectorRegistry()
        ProgramMetrics(self.registry, self.services.named)
        api, health = listeners or (None, None)
        app = control_app(self.services, settings.tokens, self.registry)
        self.api = ControlServer(app, settings.host, settings.port, api, settings.tls)
        app = health_app(self.services, self.registry)
        self.health = ControlServer(app, settings.host, settings.health_port, health, settings.tls)

    def attach(self, query: RunningQuery) -> QueryService:
        """Adds ``query`` to the API, next to other queries that run; returns its service.

        The target of an operator (or of `binshift run`) is the program's: the newest that any query has goes to all of them.
        """
        service = QueryService(query)
        with self._attaching:
            self._queries = [*(each for each in self._queries if each.isActive), query]
            if len(self.services.add(service)) > 1:
                share_target(self._queries)
        return service

    def start(self) -> Control:
        """Serve. Errors as `ControlServer.start`."""
        try:
            self.api.start()
            self.health.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End both servers; the query continues. May be called again."""
        self.health.stop()
        self.api.stop()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def share_target(queries: Sequence[RunningQuery]) -> None:
    """The newest target that an operator has given to one of several queries goes to all of them.

    A query that cannot take it now gets it with the next request: until then the program has no target.
    """
    given = [target for each in queries if (target := each.dataflow.targets.target) is not None and target.owner]
    newest = max(given, key=lambda each: each.generation, default=None)
    for query in queries if newest is not None else ():
        try:
            query.put_target(**{name: getattr(newest, name) for name in TargetRequest.model_fields})
        except BinshiftError as error:
            log.warning("one query rejects the target of the others: %s", error)


def serve(settings: ControlSettings, query: RunningQuery | None = None) -> Control:
    """Start the control API, of ``query`` if there is one already.

    Raises:
        InvalidSettings: a port is taken or not allowed; the message names it.
    """
    control = Control(settings)
    if query is not None:
        control.attach(query)
    return control.start()


def tls_directory(environment: Mapping[str, str]) -> Path | None:
    """The folder of the certificate; None if the ports speak plain HTTP."""
    return Path(environment[TLS_VARIABLE]) if environment.get(TLS_VARIABLE) else None


def _port(environment: Mapping[str, str], variable: str) -> int:
    given = environment.get(variable) or "0"
    if not given.isascii() or not given.isdigit() or len(given) > len(str(PORT_MAX)) or int(given) > PORT_MAX:
        raise InvalidSettings(f"{variable} is {given[:20]!r}; it must be a port, 0 to {PORT_MAX}")
    return int(given)
