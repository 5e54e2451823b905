"""The HTTP API on the driver: what may be asked of a running query, and by whom.

`contract.ControlService` is what the API needs of a query and `models` what goes over the wire; `app` translates between the
two, behind `auth` (tokens, sizes) and with every error in one form (`problems`). `query_service` binds a real query, `server`
serves on a thread, `serving` puts all of it together. It never decides what moves, and no epoch ever waits for it.

    control = serve(ControlSettings.from_environment(os.environ))
    control.attach(query)
"""

from binshift.control.query_service import QueryService
from binshift.control.server import ControlServer
from binshift.control.serving import Control, ControlSettings, Listeners, serve
from binshift.control.tokens import Tokens

__all__ = ["Control", "ControlServer", "ControlSettings", "Listeners", "QueryService", "Tokens", "serve"]
