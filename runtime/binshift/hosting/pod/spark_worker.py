"""The command line and the folders of one of Spark's workers; variables: `binshift.hosting.pod.worker`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from binshift.errors import InvalidSettings
from binshift.hosting import log_tail
from binshift.hosting.pod.daemons import daemon_environment, options
from binshift.hosting.pod.settings import DIRECTORY, address_of, needed
from binshift.memory import TASK_SLOTS_MIN, spark_mib
from binshift.ports import Ports

MAIN: Final = "org.apache.spark.deploy.worker.Worker"
WORK: Final = "work"
FOREVER: Final = "1000000000"
CONNECT_SECONDS: Final = 5
"""How long the address of a master that is gone is tried; a worker tries again every five to fifteen seconds, by name."""
CLEANUP_SECONDS: Final = 600
KEPT_SECONDS: Final = 3600
"""How long the work folders of ended programs are kept."""


@dataclass(frozen=True, slots=True)
class SparkWorker:
    """One of Spark's workers.

    Attributes:
        host: of the pod.
        master: host and port.
        work: folder of its executors' output.
        arguments: its command line.
        environment: its variables.
    """

    host: str
    master: tuple[str, int]
    work: Path
    arguments: list[str]
    environment: dict[str, str]

    def prepare(self) -> None:
        """Make its folders, and copy its executors' output to this container's log: a small child process, which ends with this one.

        Raises:
            OSError: a folder cannot be made.
        """
        for variable in ("SPARK_LOCAL_DIRS", "BINSHIFT_STORE_DIR"):
            for each in self.environment[variable].split(","):
                Path(each).mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-I", "-S", log_tail.__file__, str(self.work)]
        subprocess.Popen(command, stdin=subprocess.DEVNULL)


def spark_worker(environment: Mapping[str, str], master: str, ports: Ports, work: str = WORK) -> SparkWorker:
    """The worker of the driver whose master has this URL.

    Raises:
        InvalidSettings: a variable is missing or does not fit.
    """
    host, directory = needed(environment, "BINSHIFT_HOST"), Path(environment.get("BINSHIFT_DIRECTORY") or DIRECTORY)
    cores, memory = needed(environment, "BINSHIFT_EXECUTOR_CORES"), needed(environment, "BINSHIFT_EXECUTOR_MEMORY")
    if not (cores.isascii() and cores.isdigit() and int(cores) >= TASK_SLOTS_MIN):
        raise InvalidSettings(
            f"BINSHIFT_EXECUTOR_CORES is {cores[:20]!r}; it must be a number of task slots, {TASK_SLOTS_MIN} at least: "
            "one for epochs, one for copying state at the same time"
        )
    # Spark's worker reads a bare number as bytes, and its executor as MiB: each gets the unit.
    mib = spark_mib(memory, "BINSHIFT_EXECUTOR_MEMORY")
    arguments = [
        *("--host", host, "--port", str(ports.worker), "--webui-port", "0"),
        *("--cores", cores, "--memory", f"{mib}m", "--work-dir", str(directory / work)),
        master,
    ]
    folders = {"SPARK_LOCAL_DIRS": "spark", "BINSHIFT_STORE_DIR": "store"}
    found = {variable: environment.get(variable) or str(directory / name) for variable, name in folders.items()}
    variables = daemon_environment(environment, host, java_options()) | found
    return SparkWorker(host, address_of(master), directory / work, arguments, variables)


def java_options() -> str:
    """Options for its JVM."""
    return options(
        {
            "spark.worker.cleanup.enabled": "true",
            "spark.worker.cleanup.interval": str(CLEANUP_SECONDS),
            "spark.worker.cleanup.appDataTtl": str(KEPT_SECONDS),
            "spark.worker.initialRegistrationRetries": FOREVER,
            "spark.rpc.io.connectionCreationTimeout": f"{CONNECT_SECONDS}s",
            "spark.worker.maxRegistrationRetries": FOREVER,
        }
    )
