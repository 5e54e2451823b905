"""Gets a session ready before the program asks for one: the conf folder that Spark reads, and the variables that lead there.

Done in the program's own process, the only one of the two that knows PySpark. The folder carries Spark's secret, so that it
is on no command line and in no environment; only this user may read it, and the driver removes it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from binshift import cds
from binshift.java import java_home
from binshift.pods import conf, user
from binshift.pods.settings import DriverSettings
from binshift.running.environment import submit_arguments
from binshift.spark.conf import required

DEFAULTS_FILE: Final = "spark-defaults.conf"


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
        **user.variables(settings.directory),
    }


def defaults(settings: DriverSettings, program: Path, path: str) -> str:
    """The text of the folder's ``spark-defaults.conf``; arguments as `prepare`."""
    file = None if settings.conf is None else settings.conf / DEFAULTS_FILE
    given = file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""
    archived = cds.spark_conf(conf.NAME_OPTIONS) | cds.spark_conf(conf.EXECUTOR_OPTIONS, roles=("executor",))
    before = conf.overrulable(program, settings.directory, os.environ) | archived
    return conf.defaults_file(before, given, conf.fixed(settings, required(), program, path))
