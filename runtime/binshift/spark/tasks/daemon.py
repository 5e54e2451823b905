"""PySpark's daemon, which forks Python workers, with everything imported that binshift's tasks need.

A new worker then has its modules at once and shares their memory; otherwise each imports them again, for half a second of a core. Spark
starts it by the conf ``spark.python.daemon.module``.

PySpark's own daemon imports nothing before it forks, as some packages start threads. Those imported here can be forked: Arrow and OpenBLAS
stop and restart their threads around a fork themselves, and jemalloc does so with its one thread. What is random must not be the same in all
workers: Python's own generator is seeded again in each by Python, and NumPy's by this module.

Spark puts archives of PySpark and Py4J in front of the path. They have no bytecode, and each worker would read their tables of contents again, once
for each package in them. Where PySpark is installed, the same modules are imported from there.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

MODULES: Final = (
    "pandas",
    "pyspark.worker",
    "binshift.log.storage.local_files",
    "binshift.spark.jobs.collecting",
    "binshift.spark.tasks.adopt_function",
    "binshift.spark.tasks.background_function",
    "binshift.spark.tasks.processor_calls",
    "binshift.spark.tasks.processor_rows",
    "binshift.spark.tasks.read_function",
    "binshift.spark.tasks.standing_function",
    "binshift.spark.tasks.warmup",
)
"""With all that they import; one that is missing, or cannot be imported, is left to the worker that needs it."""


def without_archives(path: Iterable[str]) -> list[str]:
    """The path without the archives that an installed PySpark has of itself and of Py4J, if the latter is installed, too."""
    entries = list(path)
    folders = {Path(entry, "pyspark/python/lib").resolve() for entry in entries}

    def is_needed(archive: Path) -> bool:
        package = archive.stem.partition("-")[0]
        installed = any(Path(entry, package, "__init__.py").is_file() for entry in entries)
        return archive.suffix != ".zip" or archive.parent not in folders or not installed

    return [entry for entry in entries if is_needed(Path(entry).resolve())]


def load(modules: Iterable[str] = MODULES) -> None:
    """Import them, and exclude all that is loaded from garbage collection, which would copy its memory in each worker."""
    for name in modules:
        with suppress(Exception):  # whatever a package raises: the daemon must start
            importlib.import_module(name)
    os.register_at_fork(after_in_child=seed_numpy)
    gc.collect()
    gc.freeze()


def seed_numpy() -> None:
    """Seed NumPy's global generator from the system, as at its import."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def main() -> None:
    """Load, then serve Spark's requests for workers."""
    sys.path[:] = without_archives(sys.path)
    load()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
