"""What answers on the control API's sockets while the program has no query: before it, after it, and between two tries.

The sockets belong to the driver's process and are open for as long as it lives. Whoever serves, this process or the
program's, does so on copies of them: when one hands over to the other, callers wait for a moment and are never refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from binshift.control import Control, ControlSettings, Listeners
from binshift.control.models import Dataflow, State
from binshift.control.service_holder import NotStarted
from binshift.model import Worker


class NotRunning(NotStarted):
    """The service of a program without a query, which can be stopped all the same: then it is not started again.

    Args:
        state: what it does instead of running.
        reason: why.
        stop: called when somebody asks for a stop.
        holding: workers that hold the bins by the log, once that is known.
        failures: how often in a row the program has failed.
    """

    def __init__(
        self, state: State, reason: str, stop: Callable[[], None], holding: Sequence[Worker] = (), failures: int = 0
    ) -> None:
        super().__init__(state, reason)
        self._stop = stop
        self._known = {"workers": list(holding), "failures": failures}

    def snapshot(self) -> Dataflow:
        """See `ControlService`."""
        return super().snapshot().model_copy(update=self._known)

    def unready(self) -> str:
        """See `ControlService`."""
        seen: Dataflow = self.snapshot()
        return f"{seen.state.value}{seen.reason and ': '}{seen.reason}"

    def stop(self) -> None:
        """Have the program not started again, or ended before it has a query."""
        self._stop()


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
        self._control.services.fill(NotRunning(state, reason, self._stop, holding, failures))
        if not self._serving:
            self._control.start()
            self._serving = True

    def release(self) -> None:
        """Leave the sockets to the program, once requests under way are answered. May be called again."""
        if self._serving:
            self._serving = False
            self._control.stop()
