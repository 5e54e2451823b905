"""What a user's program is given from outside, as `spark-submit` would: its master, its Spark conf, its control API.

The program only calls ``SparkSession.builder.getOrCreate()``. Pure: values in, values out.

| variable | for |
|---|---|
| ``PYSPARK_SUBMIT_ARGS`` | PySpark: master and conf |
| ``BINSHIFT_MASTER`` | `binshift.spark.conf`: refuses a program that chose another master |
| ``BINSHIFT_CONTROL_PORT``, ``BINSHIFT_TOKEN`` | `binshift.control` |
| ``BINSHIFT_RUN_DIRECTORY`` | `binshift.hosting.local.program`: where to write the API's address |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from binshift.errors import InvalidSettings
from binshift.hosting import log_tail
from binshift.hosting.program import submit_arguments
from binshift.settings import ENABLED_CONF

RUN_DIRECTORY_VARIABLE: Final = "BINSHIFT_RUN_DIRECTORY"


def program_conf(
    required: Mapping[str, str],
    workers: int,
    program: Path,
    cluster: Path,
    path: str,
    chosen: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Spark conf for a program on a local cluster.

    Args:
        required: what binshift and the cluster need.
        workers: how many a new query waits for.
        program: the executors find modules next to it, too.
        cluster: the folder of the cluster.
        path: of Python modules, from the environment.
        chosen: by the user.

    Raises:
        InvalidSettings: the user chose otherwise than binshift and the cluster need.
    """
    modules = os.pathsep.join(filter(None, [str(program.parent), path]))
    defaults = {
        "spark.app.name": program.stem,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        ENABLED_CONF: "true",
        **log_tail.CONF,
    }
    fixed = {
        **required,
        "spark.binshift.workers": str(workers),
        "spark.executorEnv.PYTHONPATH": modules,
        "spark.local.dir": str(cluster / "driver"),
    }
    chosen = chosen or {}
    if wrong := [key for key, value in chosen.items() if fixed.get(key, value) != value]:
        raise InvalidSettings(
            f"--conf {wrong[0]}={chosen[wrong[0]]}: it must be {fixed[wrong[0]]!r} here; leave it out"
        )
    return defaults | dict(chosen) | fixed


def program_environment(
    master: str,
    conf: Mapping[str, str],
    java: str,
    token: str,
    port: int,
    directory: Path,
    secret: Path | None = None,
) -> dict[str, str]:
    """Variables of the program's process in addition to those of `binshift run`; ``secret``: a file with conf."""
    from binshift.spark.conf import MASTER_VARIABLE

    return {
        "PYSPARK_SUBMIT_ARGS": submit_arguments(master, conf, secret),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": java,
        MASTER_VARIABLE: master,
        "BINSHIFT_CONTROL_PORT": str(port),
        "BINSHIFT_TOKEN": token,
        RUN_DIRECTORY_VARIABLE: str(directory),
    }
