"""What answers on the control API's sockets while the program has no query: before it, after it, and between two tries.

The sockets belong to the driver's process and are open for as long as it lives. Whoever serves, this process or the
program's, does so on copies of them: when one hands over to the other, callers wait for a moment and are never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from binshift.control import Control, ControlSettings, Listeners
from binshift.control.models import State
from binshift.control.services import ControlService
from binshift.model import Worker


class PlaceholderApi:
    """Serves until the program does, and again when it no longer does.

    Args:
        settings: for whom.
        listeners: the sockets.
        stop: called when somebody asks for a stop here.
    """

    def __init__(self, settings: ControlSettings, listeners: Listeners, stop: Callable[[], None]) -> None:
        self._control = Control(settings, listeners)
        self._stop = stop
        self._serving = False

    def show(self, state: State, reason: str = "", holding: Sequence[Worker] = (), failures: int = 0) -> None:
        """Answer so from now on. Errors as `ControlServer.start`."""
        known = {"workers": list(holding), "failures": failures}
        self._control.services.current = ControlService(state, reason, self._stop, **known)
        if not self._serving:
            self._control.start()
            self._serving = True

    def release(self) -> None:
        """Leave the sockets to the program, once requests under way are answered. May be called again."""
        if self._serving:
            self._serving = False
            self._control.stop()
