"""What the commands around a run have in common: options, how they print, and when a requested scale has settled."""

from __future__ import annotations

import argparse
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

from binshift.control import models
from binshift.encryption import AUTHORITY, CERTIFICATE, KEY
from binshift.errors import MigrationRefused, RunFailed
from binshift.hosting.client import ControlClient
from binshift.hosting.following import FAILED
from binshift.hosting.local.directory import DesiredScale, Run, RunDirectory, find
from binshift.ports import PORT_MAX
from binshift.rescale import LOCAL_OWNER


def parser(name: str, description: str, epilog: str = "", *, of_run: bool = True) -> argparse.ArgumentParser:
    """A parser with the options that every command has; ``of_run``: the command is about an existing run."""
    made = argparse.ArgumentParser(
        f"binshift {name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--output", choices=("text", "json"), default="text", help="output format (default: text)")
    if of_run:
        made.add_argument("--run", metavar="NAME", help="the run, if there are several")
    return made


def count(most: int, least: int = 1) -> Callable[[str], int]:
    """A type of argument: ``least`` to ``most``."""

    def counted(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    return counted


def memory(text: str) -> str:
    """A type of argument: memory in Spark's notation, in whole MiB or GiB.

    >>> memory("600m")
    '600m'
    """
    if not re.fullmatch(r"[1-9][0-9]{0,5}[mg]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory, such as 600m or 2g")
    return text


def conf_entry(text: str) -> tuple[str, str]:
    """A type of argument: Spark conf.

    >>> conf_entry("spark.sql.session.timeZone=UTC")
    ('spark.sql.session.timeZone', 'UTC')
    """
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"(spark|binshift)\.[\w.-]+", key):
        raise argparse.ArgumentTypeError(f"{text!r} is not Spark conf, such as spark.sql.session.timeZone=UTC")
    return key, value


def port(text: str) -> int:
    """A type of argument: a port, 0 for any."""
    if not text.isascii() or not text.isdigit() or int(text) > PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to {PORT_MAX}")
    return int(text)


def certificate_folder(text: str) -> Path:
    """A type of argument: a folder with a certificate, its key and its authority, as in a Secret of type kubernetes.io/tls."""
    folder = Path(text).resolve()
    for name in (CERTIFICATE, KEY, AUTHORITY):
        if not (folder / name).is_file():
            raise argparse.ArgumentTypeError(f"{text!r} has no {name}; it needs {CERTIFICATE}, {KEY} and {AUTHORITY}")
    return folder


def location(text: str) -> str:
    """A location that does not depend on the working directory of the program."""
    return text.rstrip("/") if urlsplit(text).scheme else str(Path(text).resolve())


def open_run(name: str | None) -> tuple[RunDirectory, ControlClient]:
    """The run that is meant, and its control API.

    Raises:
        NoRun: there is none.
        RunFailed: its program has not started the API yet.
    """
    directory = find(os.environ, name)
    control = control_of(directory.run)
    if control is None:
        raise RunFailed(f"{directory.run.name} is still starting its program: try again in a few seconds")
    return directory, control


def control_of(run: Run) -> ControlClient | None:
    """The control API of a run; None until its program's process has started it, and while its authority's file is being renewed."""
    if run.url is None:
        return None
    if run.authority is None:
        return ControlClient(run.url, run.token)
    try:
        trust = ssl.create_default_context(cafile=run.authority)
    except OSError:  # no such file, or half of one
        return None
    trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the authority can be an intermediate one
    return ControlClient(run.url, run.token, trust)


def page_address(run: Run) -> str:
    """The address of the control port's page with its token, in the part that a browser keeps to itself.

    >>> page_address(Run("clicks-1", 1, "clicks.py", "cluster", "a/b", url="http://127.0.0.1:1"))
    'http://127.0.0.1:1/#token=a%2Fb'
    """
    return f"{run.url}/#token={quote(run.token, safe='')}"


def settled(directory: RunDirectory, dataflow: models.Dataflow, scale: DesiredScale) -> bool:
    """Whether ``scale`` has settled.

    Raises:
        MigrationRefused: the target was rejected, its migration ended differently, or a newer request has replaced it.
        RunFailed: the query does not run any more.
    """
    if dataflow.state not in (models.State.LOADING, models.State.RUNNING):
        raise RunFailed(f"the query is {dataflow.state.value.lower()}: {dataflow.reason or 'it was stopped'}")
    now, status = directory.desired_scale, directory.scale_status
    if now.count != scale.count:
        raise MigrationRefused(
            f"{scale.count} workers were requested, and then {now.count}: the second request replaces the first"
        )
    if status is not None and status.generation >= scale.generation and status.refused:
        raise MigrationRefused(status.refused)
    target, migration = dataflow.target, dataflow.migration
    if target is None or target.owner != LOCAL_OWNER or target.generation < scale.generation:
        return False
    mine = migration is not None and migration.generation == target.generation
    if migration is not None and mine and migration.phase in FAILED:
        raise MigrationRefused(
            f"migration {migration.id} is {migration.phase}: {migration.reason or 'no reason given'}"
        )
    return target.settled
