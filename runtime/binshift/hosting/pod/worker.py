"""Spark's worker in an executor pod: ``python -m binshift.hosting.pod.worker``.

It offers all it has to one executor; the number at the end of its host's name is the slot whose bins that executor holds. With a
standby driver, each driver has a worker of its own in the pod (`binshift.hosting.pod.driver_workers`).

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_MASTER`` | Spark's master | |
| ``BINSHIFT_DRIVER_HOSTS`` | names of the drivers' pods, if one is a standby; instead of ``BINSHIFT_MASTER`` | |
| ``BINSHIFT_HOST`` | this pod's name | |
| ``BINSHIFT_EXECUTOR_MEMORY`` | heap of the executor, as ``900m`` or any other of Spark's notations | |
| ``BINSHIFT_EXECUTOR_CORES`` | its task slots | |
| ``BINSHIFT_DIRECTORY`` | writable folder | /var/lib/binshift |
| ``SPARK_LOCAL_DIRS``, ``BINSHIFT_STORE_DIR`` | exchange and stores | ``spark`` and ``store`` in that folder |
| ``BINSHIFT_..._PORT`` | ports | `binshift.ports` |
| ``SPARK_DAEMON_MEMORY`` | heap of the worker itself | 128m |
| ``SPARK_CONF_DIR``, ``_SPARK_AUTH_SECRET`` | Spark's own | |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from binshift.errors import BinshiftError
from binshift.hosting.pod import driver_workers
from binshift.hosting.pod.daemons import await_port, configure_logging, exec_daemon
from binshift.hosting.pod.settings import driver_hosts, needed
from binshift.hosting.pod.spark_worker import MAIN, spark_worker
from binshift.ports import Ports


def main(environment: Mapping[str, str]) -> int:
    """Become the worker, or run one for each driver; returns only if that cannot be, or at a signal."""
    configure_logging()
    try:
        if driver_hosts(environment):
            return driver_workers.run(environment)
        worker = spark_worker(environment, needed(environment, "BINSHIFT_MASTER"), Ports.from_environment(environment))
        # A worker that finds no master at first waits for many seconds.
        await_port(*worker.master)
        worker.prepare()
        exec_daemon(MAIN, worker.arguments, worker.environment, worker.host)
    except (BinshiftError, OSError) as error:
        sys.stderr.write(f"binshift: the worker cannot start: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(os.environ))
