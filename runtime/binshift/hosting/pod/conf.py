"""Spark's conf for a driver in a pod, in three layers, and the folder that Spark reads it from.

First defaults that every user can override; then the conf written by the maker of the pods (``spark-defaults.conf``, with the
user's own conf); last the values that binshift requires for connections and correctness: addresses, ports, the checkpoint,
Spark settings. In such a file the last value counts. The file also carries the secret, so that it is on no command line and in
no environment; only this user can read it, and the driver removes it. It is written in the program's own process, the only one
of the two that knows PySpark.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from binshift import s3
from binshift.hosting import log_tail
from binshift.hosting.pod import user
from binshift.hosting.pod.settings import DriverSettings
from binshift.hosting.program import submit_arguments
from binshift.java import java_home, spark_conf
from binshift.settings import CHECKPOINT_CONF, ENABLED_CONF
from binshift.spark.conf import required

NAME_OPTIONS: Final = "-Dsun.net.inetaddr.ttl=5 -Dsun.net.inetaddr.negative.ttl=1"
"""Java remembers addresses for half a minute and more; a pod that comes back has another one."""
EXECUTOR_OPTIONS: Final = (
    f"{NAME_OPTIONS} -Dlog4j2.configurationFile={Path(__file__).with_name('executor-log4j2.properties').as_uri()}"
)
"""Driver and executors have the same image, and so the same file."""
CONNECT_SECONDS: Final = 10
"""The address of a pod that is gone answers nothing at all: Spark would wait two minutes for it."""
LOOPBACK: Final = "127.0.0.1"
DEFAULTS_FILE: Final = "spark-defaults.conf"
EXECUTOR_WAIT_SECONDS: Final = 300
"""Longer than on one machine: pods are scheduled, and images pulled."""


def overrulable(program: Path, directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Defaults that can be overridden; the endpoint of S3 comes from the environment."""
    return {
        "spark.app.name": program.stem,
        "spark.local.dir": str(directory / "driver"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.rpc.io.connectionCreationTimeout": f"{CONNECT_SECONDS}s",
        "spark.shuffle.io.connectionCreationTimeout": f"{CONNECT_SECONDS}s",
        **log_tail.CONF,
        ENABLED_CONF: "true",
        "spark.binshift.executorWaitSeconds": str(EXECUTOR_WAIT_SECONDS),
        **s3.spark_conf(environment),
    }


def fixed(settings: DriverSettings, required: Mapping[str, str], program: Path, path: str) -> dict[str, str]:
    """What must be as it is.

    Args:
        settings: of this pod.
        required: what binshift needs (`binshift.spark.conf.required`).
        program: the user's; the executors find modules next to it, too.
        path: of Python modules, from the environment.
    """
    ports = settings.ports
    found = {
        **required,
        "spark.master": settings.master,
        "spark.driver.host": settings.host,
        "spark.driver.bindAddress": settings.bind,
        "spark.driver.port": str(ports.driver),
        "spark.driver.blockManager.port": str(ports.driver_blocks),
        "spark.blockManager.port": str(ports.executor_blocks),
        # Another port than the fixed one would be closed: it is better to report that it is taken.
        "spark.port.maxRetries": "0",
        "spark.ui.enabled": str(settings.spark_ui).lower(),
        "spark.ui.port": str(ports.spark_ui),
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, [str(program.parent), path])),
    }
    if settings.checkpoint:
        found[CHECKPOINT_CONF] = settings.checkpoint
    if settings.secret:
        found |= {"spark.authenticate": "true", "spark.authenticate.secret": settings.secret}
    return found


def defaults_file(before: Mapping[str, str], given: str, after: Mapping[str, str]) -> str:
    """The text of ``spark-defaults.conf``: three layers, the last word counts."""
    return f"{_lines(before)}\n{given}\n{_lines(after)}"


def _lines(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    """A value as Java reads it from a file of properties."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{text}" if text.startswith((" ", "\t")) else text


def prepare(settings: DriverSettings, program: Path, path: str, folder: Path) -> dict[str, str]:
    """Write the conf folder; returns the variables to set.

    Args:
        settings: of this pod.
        program: the user's.
        path: of Python modules, from the environment.
        folder: an empty one.

    Raises:
        InvalidSettings: there is no Java, or no name for the user that this process runs as.
    """
    given = settings.conf if settings.conf is not None and settings.conf.is_dir() else None
    for each in () if given is None else given.iterdir():
        if each.is_file() and each.name != DEFAULTS_FILE:
            shutil.copyfile(each, folder / each.name)
    descriptor = os.open(folder / DEFAULTS_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(defaults(settings, program, path))
    return {
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_HOSTNAME": settings.host,
        "PYSPARK_SUBMIT_ARGS": submit_arguments(settings.master, {}),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": java_home(),
        # Only Spark's UI listens there: everything else has an address of its own.
        **({"SPARK_LOCAL_IP": LOOPBACK} if settings.spark_ui else {}),
        **user.variables(settings.directory),
    }


def defaults(settings: DriverSettings, program: Path, path: str) -> str:
    """The text of the folder's ``spark-defaults.conf``; arguments as `prepare`."""
    file = None if settings.conf is None else settings.conf / DEFAULTS_FILE
    given = file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""
    before = overrulable(program, settings.directory, os.environ) | spark_conf(NAME_OPTIONS, EXECUTOR_OPTIONS)
    return defaults_file(before, given, fixed(settings, required(), program, path))
