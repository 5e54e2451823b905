"""Spark's worker in an executor pod: ``python -m binshift.hosting.pod.worker``.

It offers all it has to one executor; the number at the end of its host's name is the slot whose bins that executor holds.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_MASTER`` | Spark's master | |
| ``BINSHIFT_DRIVER_HOSTS`` | names of the drivers' pods, if one is a standby; instead of ``BINSHIFT_MASTER`` | |
| ``BINSHIFT_HOST`` | this pod's name | |
| ``BINSHIFT_EXECUTOR_MEMORY`` | heap of the executor, as ``900m`` or any other of Spark's notations | |
| ``BINSHIFT_EXECUTOR_CORES`` | its task slots | |
| ``BINSHIFT_DIRECTORY`` | writable folder | /var/lib/binshift |
| ``SPARK_LOCAL_DIRS``, ``BINSHIFT_STORE_DIR`` | exchange and stores | ``spark`` and ``store`` in that folder |
| ``BINSHIFT_WORKER_PORT`` | port | `binshift.ports` |
| ``SPARK_DAEMON_MEMORY`` | heap of the worker itself | 128m |
| ``SPARK_CONF_DIR``, ``_SPARK_AUTH_SECRET`` | Spark's own | |
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from binshift.errors import BinshiftError, InvalidSettings
from binshift.hosting import log_tail
from binshift.hosting.pod import relay
from binshift.hosting.pod.daemons import await_port, configure_logging, daemon_environment, exec_daemon, options
from binshift.hosting.pod.settings import DIRECTORY, address_of, needed
from binshift.memory import TASK_SLOTS_MIN, spark_mib
from binshift.ports import Ports

MAIN: Final = "org.apache.spark.deploy.worker.Worker"
HOSTS_VARIABLE: Final = "BINSHIFT_DRIVER_HOSTS"
WORK: Final = "work"
FOREVER: Final = "1000000000"
CONNECT_SECONDS: Final = 5
"""How long the address of a master that is gone is tried; a worker tries again every five to fifteen seconds, by name."""
CLEANUP_SECONDS: Final = 600
KEPT_SECONDS: Final = 3600
"""How long the work folders of ended programs are kept."""


def arguments(environment: Mapping[str, str]) -> list[str]:
    """The worker's command line.

    Raises:
        InvalidSettings: a variable is missing or does not fit.
    """
    ports, work = Ports.from_environment(environment), _directory(environment) / WORK
    cores, memory = needed(environment, "BINSHIFT_EXECUTOR_CORES"), needed(environment, "BINSHIFT_EXECUTOR_MEMORY")
    if not (cores.isascii() and cores.isdigit() and int(cores) >= TASK_SLOTS_MIN):
        raise InvalidSettings(
            f"BINSHIFT_EXECUTOR_CORES is {cores[:20]!r}; it must be a number of task slots, {TASK_SLOTS_MIN} at least: "
            "one for epochs, one for copying state at the same time"
        )
    # Spark's worker reads a bare number as bytes, and its executor as MiB: each gets the unit.
    mib = spark_mib(memory, "BINSHIFT_EXECUTOR_MEMORY")
    return [
        *("--host", needed(environment, "BINSHIFT_HOST"), "--port", str(ports.worker), "--webui-port", "0"),
        *("--cores", cores, "--memory", f"{mib}m", "--work-dir", str(work)),
        master_url(environment),
    ]


def master_url(environment: Mapping[str, str]) -> str:
    """Spark's master for the worker: with a standby driver, the relay that leads to the active one's. Errors as `arguments`."""
    if environment.get(HOSTS_VARIABLE):
        return f"spark://127.0.0.1:{Ports.from_environment(environment).relay}"
    return needed(environment, "BINSHIFT_MASTER")


def java_options(*, relayed: bool = False) -> str:
    """Options for its JVM; ``relayed``: its master is behind a relay."""
    return options(
        {
            "spark.worker.cleanup.enabled": "true",
            "spark.worker.cleanup.interval": str(CLEANUP_SECONDS),
            "spark.worker.cleanup.appDataTtl": str(KEPT_SECONDS),
            "spark.worker.initialRegistrationRetries": FOREVER,
            "spark.rpc.io.connectionCreationTimeout": f"{CONNECT_SECONDS}s",
            "spark.worker.maxRegistrationRetries": FOREVER,
            # Of a relay the master does not know: it would name its own address, which is of another pod after a take-over.
            **({"spark.worker.preferConfiguredMasterAddress": "true"} if relayed else {}),
        }
    )


def follow_executors(work: Path) -> None:
    """Copy executors' output to this container's log, too: a small child process, which ends with this one."""
    subprocess.Popen([sys.executable, "-I", "-S", log_tail.__file__, str(work)], stdin=subprocess.DEVNULL)


def start_relay(environment: Mapping[str, str]) -> None:
    """Lead the worker and the preStop hook to the active driver: a small child process, which ends with this one."""
    ports, hosts = Ports.from_environment(environment), environment[HOSTS_VARIABLE].split(",")
    pairs = f"{ports.relay}:{ports.master},{ports.control_relay}:{ports.control}"
    command = [sys.executable, "-I", "-S", relay.__file__, str(ports.active), pairs, *hosts]
    subprocess.Popen(command, stdin=subprocess.DEVNULL)


def main(environment: Mapping[str, str]) -> int:
    """Become the worker; returns only if that cannot be."""
    configure_logging()
    try:
        wanted, directory = arguments(environment), _directory(environment)
        master, host = address_of(master_url(environment)), environment["BINSHIFT_HOST"]
        relayed = bool(environment.get(HOSTS_VARIABLE))
        folders = {"SPARK_LOCAL_DIRS": "spark", "BINSHIFT_STORE_DIR": "store"}
        found = {variable: environment.get(variable) or str(directory / name) for variable, name in folders.items()}
        for folder in found.values():
            for each in folder.split(","):
                Path(each).mkdir(parents=True, exist_ok=True)
        if relayed:
            start_relay(environment)
        # A worker that finds no master at first waits for many seconds.
        await_port(*master)
        follow_executors(directory / WORK)
        exec_daemon(MAIN, wanted, daemon_environment(environment, host, java_options(relayed=relayed)) | found, host)
    except (BinshiftError, OSError) as error:
        sys.stderr.write(f"binshift: the worker cannot start: {error}\n")
        return 2


def _directory(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("BINSHIFT_DIRECTORY") or DIRECTORY)


if __name__ == "__main__":
    sys.exit(main(os.environ))
