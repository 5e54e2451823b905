"""The Spark conf that binshift needs, why, and what to do if a setting is missing.

Conf that Spark reads when the application starts cannot be set later: it is checked, and the error has the line to add.
Conf that a session can change is set on the epoch's own session, never on the user's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from binshift.errors import InvalidSettings, Unsupported

STATIC: dict[str, tuple[str, str]] = {
    "spark.shuffle.reduceLocality.enabled": ("false", "tasks must follow their bins, not their shuffle blocks"),
    "spark.locality.wait": ("30s", "a task waits for the executor that holds its bins instead of running elsewhere"),
    "spark.scheduler.mode": ("FAIR", "copying must not queue in front of an epoch"),
    "spark.task.maxFailures": ("1", "binshift runs a failed epoch again as a whole; Spark must not re-run one task"),
    "spark.speculation": ("false", "a second attempt of a task would apply its records twice"),
    "spark.excludeOnFailure.enabled": ("false", "a task can run on one executor only"),
}
"""Key -> (value, why): read when the application starts."""

RECOMMENDED: dict[str, tuple[str, str]] = {
    "spark.python.unix.domain.socket.enabled": (
        "true",
        "rows reach Python through a Unix socket; over TCP, small messages wait 40 ms for a delayed acknowledgement",
    ),
    "spark.python.daemon.module": (
        "binshift.spark.tasks.daemon",
        "a new Python worker has its modules at once, and shares their memory; otherwise it imports them for half a second",
    ),
}
"""Key -> (value, why): makes epochs shorter and changes nothing else."""

EPOCH: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.requireAllClusterKeysForDistribution": "false",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Set on the session of each epoch. Its plan has exactly one exchange, which must not change. Tracebacks are complete, because
Spark's shorter ones omit the cause; `binshift.spark.session.failures` shortens them. The form of strings in Arrow
(``spark.sql.execution.arrow.useLargeVarTypes``) is left to the user, whose functions see it; S accepts both."""

LOCALITY_WAIT_MIN_SECONDS = 3

MASTER_VARIABLE = "BINSHIFT_MASTER"
"""Set by the launcher of a program on a cluster: the master that the program must use."""


def required() -> dict[str, str]:
    """All conf to give to ``SparkSession.builder`` or ``spark-submit --conf``.

    >>> required()["spark.scheduler.mode"]
    'FAIR'
    """
    return {key: value for key, (value, _) in (STATIC | RECOMMENDED).items()}


def given(spark: SparkSession) -> Mapping[str, str]:
    """What the program was given: the folder's ``spark-defaults.conf``, where the process has one; else the session's.

    A session also has what the program has set itself.
    """
    file = Path(os.environ.get("SPARK_CONF_DIR", "")) / "spark-defaults.conf"
    if not os.environ.get("SPARK_CONF_DIR") or not file.is_file():
        return spark.conf.getAll
    jvm: Any = spark._jvm
    found = jvm.org.apache.spark.util.Utils.getPropertiesFromFile(str(file))
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(found))


def check(spark: SparkSession) -> None:
    """Reject a session that cannot run a dataflow.

    Raises:
        InvalidSettings: conf is missing or different; the message has the lines to add.
        Unsupported: a Spark Connect session, or a master without separate executors.
    """
    if not isinstance(spark, SparkSession) or not hasattr(spark, "_jsparkSession"):
        raise Unsupported("Spark Connect has no access to the scheduler that pins tasks; use a classic SparkSession")
    conf = spark.sparkContext.getConf()
    master = conf.get("spark.master", "")
    check_master(str(master), os.environ.get(MASTER_VARIABLE))
    if str(master).startswith("local"):
        raise Unsupported(
            f"master {master!r} runs tasks inside the driver; binshift needs dedicated executors: "
            "start the program with `binshift run app.py`, or use binshift.local.LocalCluster"
        )
    wrong = [key for key, (value, _) in STATIC.items() if not _fits(key, str(conf.get(key, "")), value)]
    if wrong:
        lines = "\n".join(f'    .config("{key}", "{STATIC[key][0]}")   # {STATIC[key][1]}' for key in wrong)
        raise InvalidSettings(f"add to SparkSession.builder, before the first session is created:\n{lines}")


def check_master(master: str, given: str | None) -> None:
    """Reject a master that the program chose itself where it was started on a given cluster.

    Raises:
        InvalidSettings: they differ.

    >>> check_master("spark://127.0.0.1:7077", "spark://127.0.0.1:7077")
    """
    if given and master != given:
        raise InvalidSettings(
            f"the program chose the master {master!r}, but was started on the cluster {given}: "
            f"remove `.master({master!r})` from the program, and SparkSession.builder.getOrCreate() finds the cluster"
        )


def _fits(key: str, value: str, wanted: str) -> bool:
    if key == "spark.locality.wait":
        return _seconds(value) >= LOCALITY_WAIT_MIN_SECONDS
    if key in ("spark.speculation", "spark.excludeOnFailure.enabled"):
        return value.lower() in ("", "false")
    return value.lower() == wanted.lower()


def _seconds(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
    for unit in sorted(units, key=len, reverse=True):
        if text.endswith(unit) and text[: -len(unit)].strip().isdigit():
            return int(text[: -len(unit)]) * units[unit]
    return int(text) / 1000 if text.isdigit() else 0.0
