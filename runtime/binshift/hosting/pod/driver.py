"""The entry point of a driver pod: ``python -m binshift.hosting.pod.driver PROGRAM [ARGUMENT ...]``.

Opens the control API, then runs the program as a child and supervises it (`binshift.hosting.pod.supervisor`). SIGTERM stops the
query after its epoch; a second one, or ``BINSHIFT_STOP_SECONDS``, ends everything at once. Variables: `binshift.hosting.pod.settings`.

Exit status: 0 if it was stopped on request; 1 if the program had to be killed; 2 if the environment is wrong.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from binshift.control import ControlSettings, Listeners
from binshift.control.auth import ADMIN_VARIABLE, DRAIN_VARIABLE, FILE_SUFFIX
from binshift.encryption import SECRET_VARIABLE
from binshift.errors import BinshiftError, InvalidSettings
from binshift.hosting.pod.activation import Activation
from binshift.hosting.pod.channel import Hello
from binshift.hosting.pod.daemons import configure_logging
from binshift.hosting.pod.settings import DriverSettings
from binshift.hosting.pod.supervisor import Supervisor, program_command
from binshift.hosting.processes import Interrupts

HIDDEN: Final = (
    *(ADMIN_VARIABLE, ADMIN_VARIABLE + FILE_SUFFIX, DRAIN_VARIABLE, DRAIN_VARIABLE + FILE_SUFFIX),
    SECRET_VARIABLE,
)
"""Not in the program's environment: it has no need of them."""


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Supervise a program until a signal comes; returns the exit status."""
    configure_logging()
    interrupts = Interrupts()
    try:
        with interrupts.watched(), ExitStack() as ends:
            if not arguments:
                raise InvalidSettings(
                    "no program is named; the command is `binshift.hosting.pod.driver PROGRAM [ARGUMENT ...]`"
                )
            program, settings = Path(arguments[0]).absolute(), DriverSettings.from_environment(environment)
            control = control_settings(settings, environment)
            listeners = ends.enter_context(_bound(control))
            activation = Activation(active=not settings.standby, host=settings.bind, port=settings.ports.active)
            ends.callback(activation.close)
            folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="binshift-driver-"))
            return Supervisor(
                program_command(program, arguments[1:]),
                program_environment(environment),
                Hello(folder, settings.secret, control.tokens.admin, control.tokens.drain),
                control,
                listeners,
                interrupts,
                settings.stop_seconds,
                settings.ports.master_status,
                lambda reason: write_termination_reason(settings.termination_log, reason),
                activation=activation,
            ).run()
    except (BinshiftError, OSError) as error:
        sys.stderr.write(f"binshift: the driver cannot start: {error}\n")
        write_termination_reason(
            Path(environment.get("BINSHIFT_TERMINATION_LOG") or "/dev/termination-log"), str(error)
        )
        return 2


def control_settings(settings: DriverSettings, environment: Mapping[str, str]) -> ControlSettings:
    """Where the control API listens, and for whom; in a pod, on all addresses."""
    given = ControlSettings.from_environment({"BINSHIFT_CONTROL_HOST": settings.bind, **environment})
    return replace(given, port=settings.ports.control, health_port=settings.ports.health)


def program_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The program's environment: without tokens and secret."""
    return {name: value for name, value in environment.items() if name not in HIDDEN}


def write_termination_reason(file: Path, reason: str) -> None:
    """Write a reason to the pod's termination message; outside Kubernetes there is no such file."""
    if file.parent.is_dir() and (file.exists() or file.parent != Path("/dev")):
        with contextlib.suppress(OSError):
            file.write_text(reason, encoding="utf-8")


@contextlib.contextmanager
def _bound(control: ControlSettings) -> Iterator[Listeners]:
    listeners = Listeners.of(control)
    try:
        yield listeners
    finally:
        for each in listeners:
            each.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
