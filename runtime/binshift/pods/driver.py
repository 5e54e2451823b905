"""The entry point of a driver pod: ``python -m binshift.pods.driver PROGRAM [ARGUMENT ...]``.

Opens the control API, then runs the program as a child and supervises it (`binshift.pods.supervisor`). SIGTERM stops the
query after its epoch; a second one, or ``BINSHIFT_STOP_SECONDS``, ends everything at once. Variables: `binshift.pods.settings`.

Exit status: 0 if it was stopped as asked; 1 if the program had to be killed; 2 if the environment is wrong.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from binshift.control import ControlSettings, Listeners
from binshift.control.tokens import ADMIN_VARIABLE, DRAIN_VARIABLE, FILE_SUFFIX
from binshift.errors import BinshiftError, InvalidSettings
from binshift.java import java_home
from binshift.pods import conf
from binshift.pods.daemons import logged
from binshift.pods.settings import SECRET_VARIABLE, DriverSettings
from binshift.pods.supervisor import Supervisor, program_command
from binshift.running.environment import submit_arguments
from binshift.running.interrupts import Interrupts

DEFAULTS_FILE: Final = "spark-defaults.conf"
HIDDEN: Final = (
    *(ADMIN_VARIABLE, ADMIN_VARIABLE + FILE_SUFFIX, DRAIN_VARIABLE, DRAIN_VARIABLE + FILE_SUFFIX),
    SECRET_VARIABLE,
)
"""Not in the program's environment: it has no need of them."""


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Supervise a program until a signal comes; returns the exit status."""
    logged()
    interrupts = Interrupts()
    try:
        with interrupts.watched(), ExitStack() as ends:
            if not arguments:
                raise InvalidSettings(
                    "no program is named; the command is `binshift.pods.driver PROGRAM [ARGUMENT ...]`"
                )
            program, settings = Path(arguments[0]).absolute(), DriverSettings.from_environment(environment)
            control = control_settings(settings, environment)
            listeners = ends.enter_context(_bound(control))
            folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="binshift-driver-")))
            text = defaults(settings, program, environment)
            written(folder, settings.conf, text)
            return Supervisor(
                program_command(program, arguments[1:]),
                program_environment(environment, settings, folder),
                control,
                listeners,
                interrupts,
                settings.stop_seconds,
                settings.ports.master_status,
                lambda reason: leave(settings.termination_log, reason),
            ).run()
    except (BinshiftError, OSError) as error:
        sys.stderr.write(f"binshift: the driver cannot start: {error}\n")
        leave(Path(environment.get("BINSHIFT_TERMINATION_LOG") or "/dev/termination-log"), str(error))
        return 2


def control_settings(settings: DriverSettings, environment: Mapping[str, str]) -> ControlSettings:
    """Where the control API listens, and for whom; in a pod, on all addresses."""
    given = ControlSettings.from_environment({"BINSHIFT_CONTROL_HOST": settings.bind, **environment})
    return replace(given, port=settings.ports.control, health_port=settings.ports.health)


def defaults(settings: DriverSettings, program: Path, environment: Mapping[str, str]) -> str:
    """The text of ``spark-defaults.conf`` for the program."""
    from binshift.spark.conf import required

    given = "" if settings.conf is None else _text(settings.conf / DEFAULTS_FILE)
    before = conf.overrulable(program, settings.directory)
    return conf.defaults_file(
        before, given, conf.fixed(settings, required(), program, environment.get("PYTHONPATH", ""))
    )


def written(folder: Path, given: Path | None, text: str) -> None:
    """Make ``folder`` the program's conf folder: what was given, with ``text`` as its defaults; only we may read it."""
    for each in () if given is None or not given.is_dir() else given.iterdir():
        if each.is_file() and each.name != DEFAULTS_FILE:
            shutil.copyfile(each, folder / each.name)
    descriptor = os.open(folder / DEFAULTS_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)


def program_environment(environment: Mapping[str, str], settings: DriverSettings, folder: Path) -> dict[str, str]:
    """The program's environment: without tokens and secret, with what PySpark looks for."""
    kept = {name: value for name, value in environment.items() if name not in HIDDEN}
    return {
        **kept,
        "SPARK_CONF_DIR": str(folder),
        "PYSPARK_SUBMIT_ARGS": submit_arguments(settings.master, {}),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": java_home(),
    }


def leave(file: Path, reason: str) -> None:
    """Leave a reason where Kubernetes looks for it; elsewhere there is no such file."""
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


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
