"""The HTTP API on the driver: what can be requested of a running query, and by whom.

`services.ControlService` is what the API needs of a program, `requests` and `models` what goes over the wire; `app` translates
between them, behind `auth` (tokens, sizes) and with every error in one form (`problems`). `query_service` is the service of one
query, `queries` that of several, and `service_holder` knows which one answers. `server` serves on a thread, `serving` puts all of it
together. It never decides what moves, and no epoch ever waits for it.

    control = serve(ControlSettings.from_environment(os.environ))
    control.attach(query)

Names are loaded when they are first used: `models` alone, of which callers are made, needs no server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binshift.control.auth import Tokens
    from binshift.control.query_service import QueryService
    from binshift.control.server import ControlServer
    from binshift.control.serving import Control, ControlSettings, Listeners, serve

__all__ = ["Control", "ControlServer", "ControlSettings", "Listeners", "QueryService", "Tokens", "serve"]

_HOMES = {"ControlServer": "server", "QueryService": "query_service", "Tokens": "auth"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'binshift.control' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'serving')}"), name)
