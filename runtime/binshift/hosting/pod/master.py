"""Spark's master in a driver pod: ``python -m binshift.hosting.pod.master``.

It keeps what it knows in files, as a driver never registers again with a master that has lost its memory. Of two drivers, only the master of the
active one needs them. That of the other one deletes them: it would wait a minute for the workers that it knows, which ended with its driver.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_HOST`` | this pod's name | |
| ``BINSHIFT_DIRECTORY`` | writable folder | /var/lib/binshift |
| ``BINSHIFT_DRIVER_HOSTS`` | names of both drivers' pods, if one is a standby | none |
| ``BINSHIFT_BIND`` | address on which the driver listens | all |
| ``BINSHIFT_MASTER_PORT``, ``BINSHIFT_MASTER_STATUS_PORT``, ``BINSHIFT_ACTIVE_PORT`` | ports | `binshift.ports` |
| ``SPARK_DAEMON_MEMORY`` | heap | 128m |
| ``SPARK_CONF_DIR``, ``_SPARK_AUTH_SECRET`` | Spark's own | |
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from binshift.errors import BinshiftError
from binshift.hosting.pod.daemons import configure_logging, daemon_environment, exec_daemon, listens, options
from binshift.hosting.pod.settings import DIRECTORY, driver_hosts, needed
from binshift.ports import Ports

MAIN: Final = "org.apache.spark.deploy.master.Master"


def arguments(environment: Mapping[str, str]) -> list[str]:
    """The master's command line.

    Raises:
        InvalidSettings: a variable is missing or does not fit.
    """
    ports = Ports.from_environment(environment)
    host = needed(environment, "BINSHIFT_HOST")
    return ["--host", host, "--port", str(ports.master), "--webui-port", str(ports.master_status)]


def java_options(directory: Path) -> str:
    """Options for its JVM; what it knows is kept in ``directory``."""
    return options(
        {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(directory),
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.master.rest.enabled": "false",
        }
    )


def has_active_driver(environment: Mapping[str, str]) -> bool:
    """Whether the driver in this pod is the active one of two (`binshift.hosting.pod.activation`)."""
    return listens(environment.get("BINSHIFT_BIND") or "localhost", Ports.from_environment(environment).active)


def main(environment: Mapping[str, str]) -> int:
    """Become the master; returns only if that cannot be."""
    configure_logging()
    try:
        wanted = arguments(environment)
        directory = Path(environment.get("BINSHIFT_DIRECTORY") or DIRECTORY) / "master"
        if driver_hosts(environment) and not has_active_driver(environment):
            shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, exist_ok=True)
        host = environment["BINSHIFT_HOST"]
        exec_daemon(MAIN, wanted, daemon_environment(environment, host, java_options(directory)), host)
    except (BinshiftError, OSError) as error:
        sys.stderr.write(f"binshift: the master cannot start: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(os.environ))
