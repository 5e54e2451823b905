"""Spark's own daemons, master and worker: this process becomes theirs, so that signals and exit status are Spark's.

Their pages are on loopback without links that end anything, the master takes no jobs over HTTP, a worker restarts its executor
without limit, and reconnects to its master forever: pods come and go.

All pods of a dataflow start at once, and a name is known some seconds after its pod. Spark's processes would end at the first name
that is not known, and wait many seconds before they ask a master again that did not answer: so names and ports are awaited first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from binshift import cds
from binshift.errors import InvalidSettings
from binshift.hosting.pod import user
from binshift.hosting.pod.conf import LOOPBACK, NAME_OPTIONS
from binshift.hosting.pod.settings import DIRECTORY
from binshift.java import QUICK_TO_START, java_home
from binshift.memory import DAEMON_HEAP_MIB

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.2
CONNECT_SECONDS_MAX: Final = 2.0
LISTENS_SECONDS_MAX: Final = 1.0
JAVA_OPTIONS: Final = f"{NAME_OPTIONS} {QUICK_TO_START} -XX:+ExitOnOutOfMemoryError -Dspark.ui.killEnabled=false"
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def options(properties: Mapping[str, str]) -> str:
    """Options for a daemon's JVM.

    >>> options({"spark.master.rest.enabled": "false"}).endswith("-Dspark.master.rest.enabled=false")
    True
    """
    return " ".join([JAVA_OPTIONS, *(f"-D{key}={value}" for key, value in properties.items())])


def daemon_environment(environment: Mapping[str, str], host: str, java_options: str) -> dict[str, str]:
    """A daemon's environment: heap and options set by the creator of the pod take precedence. Errors as `user.variables`."""
    given = environment.get("SPARK_DAEMON_JAVA_OPTS", "")
    return {
        **cds.daemon_environment(),
        **environment,
        **user.variables(Path(environment.get("BINSHIFT_DIRECTORY") or DIRECTORY)),
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": java_home(),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": environment.get("SPARK_DAEMON_MEMORY") or f"{DAEMON_HEAP_MIB}m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(filter(None, [java_options, cds.java_options(), given])),
        "SPARK_LOCAL_HOSTNAME": host,
        # Where the pages are; the daemon itself listens on its host.
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def exec_daemon(main: str, arguments: Sequence[str], environment: Mapping[str, str], host: str) -> NoReturn:
    """Become Spark's process ``main``, once this pod's own name is known.

    Raises:
        InvalidSettings: it is not within a minute.
    """
    need_name(host)
    found = command(main, arguments)
    sys.stderr.flush()
    os.execve(found[0], found, dict(environment))


def command(main: str, arguments: Sequence[str]) -> list[str]:
    """The command line of Spark's process ``main``. Errors as `spark_home`."""
    return [str(spark_home() / "bin" / "spark-class"), main, *arguments]


def spark_home() -> Path:
    """Where PySpark is installed, which carries all of Spark.

    Raises:
        InvalidSettings: it is not.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise InvalidSettings("PySpark is not installed in this image: build it FROM binshift's spark image")
    return Path(found.origin).parent


def configure_logging() -> None:
    """Log in Spark's format; a user's program can set up its own logging as usual."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    ours = logging.getLogger("binshift")
    ours.setLevel(logging.INFO)
    ours.handlers, ours.propagate = [handler], False


def need_name(host: str) -> None:
    """Return once this pod's own name is known.

    Raises:
        InvalidSettings: it is not within a minute.
    """
    if not await_name(host):
        raise InvalidSettings(f"BINSHIFT_HOST is {host!r}, which does not resolve: is there a headless service for it?")


def listens(host: str, port: int) -> bool:
    """Whether a process listens there now."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), LISTENS_SECONDS_MAX):
        return True
    return False


def await_name(host: str, seconds: float = WAIT_SECONDS) -> bool:
    """Whether ``host`` resolves within so many seconds."""
    return _await(f"{host} to be known", lambda: bool(socket.getaddrinfo(host, None)), seconds)


def await_port(host: str, port: int, seconds: float = WAIT_SECONDS) -> bool:
    """Whether a process listens there within so many seconds."""

    def connects() -> bool:
        with socket.create_connection((host, port), CONNECT_SECONDS_MAX):
            return True

    return _await(f"{host}:{port} to answer", connects, seconds)


def _await(what: str, check: Callable[[], bool], seconds: float) -> bool:
    began, logged = time.monotonic(), False
    while True:
        try:
            return check()
        except OSError as error:
            if time.monotonic() - began > seconds:
                log.warning("waited %.0f s for %s: %s", seconds, what, error)
                return False
            if not logged:
                logged = True
                log.info("waiting for %s: %s", what, error)
        time.sleep(POLL_SECONDS)
