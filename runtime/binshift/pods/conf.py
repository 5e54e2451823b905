"""Spark's conf for a driver in a pod, in the three layers that its file has. Pure.

First what anybody may overrule; then what whoever made the pods has written (``spark-defaults.conf``, with the user's own
conf); last what must be as it is, or nothing would find its way: addresses, ports, the checkpoint, what binshift needs.
In such a file the last word counts. The file also carries the secret, so that it is on no command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from binshift import followed, s3
from binshift.pods.settings import DriverSettings
from binshift.settings import CHECKPOINT_CONF

NAME_OPTIONS: Final = "-Dsun.net.inetaddr.ttl=5 -Dsun.net.inetaddr.negative.ttl=1"
"""Java remembers addresses for half a minute and more; a pod that comes back has another one."""
EXECUTOR_OPTIONS: Final = (
    f"{NAME_OPTIONS} -Dlog4j2.configurationFile={Path(__file__).with_name('executor-log4j2.properties').as_uri()}"
)
"""Driver and executors have the same image, and so the same file."""
CONNECT_SECONDS: Final = 10
"""The address of a pod that is gone answers nothing at all: Spark would wait two minutes for it."""
EXECUTOR_WAIT_SECONDS: Final = 300
"""Longer than on one machine: pods are scheduled, and images pulled."""


def overrulable(program: Path, directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What anybody may set otherwise; the environment says where S3 is."""
    return {
        "spark.app.name": program.stem,
        "spark.local.dir": str(directory / "driver"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.defaultJavaOptions": NAME_OPTIONS,
        "spark.executor.defaultJavaOptions": EXECUTOR_OPTIONS,
        "spark.rpc.io.connectionCreationTimeout": f"{CONNECT_SECONDS}s",
        "spark.shuffle.io.connectionCreationTimeout": f"{CONNECT_SECONDS}s",
        **followed.CONF,
        "spark.binshift.executorWaitSeconds": str(EXECUTOR_WAIT_SECONDS),
        **s3.spark_conf(environment),
    }


def fixed(settings: DriverSettings, required: Mapping[str, str], program: Path, path: str) -> dict[str, str]:
    """What must be as it is.

    Args:
        settings: of this pod.
        required: what binshift needs (`binshift.spark.conf.required`).
        program: the user's; modules beside it are found by the executors, too.
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
        # Another port than the fixed one would be closed: better to say that it is taken.
        "spark.port.maxRetries": "0",
        "spark.ui.enabled": "false",
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
