"""The Java runtime that Spark needs: 17 or 21, from JAVA_HOME or the PATH; and the options of its processes."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from binshift import cds
from binshift.errors import InvalidSettings

SUPPORTED = (17, 21)
QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java process that runs for minutes on a few shared cores, or is almost idle: the optimising compiler
would take more time than its code saves."""

DRIVER_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""A driver plans: it runs much code, and each part seldom. Without the optimising compiler the JVM would reserve only 48 MiB for code."""
LATER: Final = 20
EXECUTOR_OPTIONS: Final = (
    f"-XX:Tier4InvocationThreshold={LATER * 5000} -XX:Tier4MinInvocationThreshold={LATER * 600} "
    f"-XX:Tier4CompileThreshold={LATER * 15000} -XX:Tier4BackEdgeThreshold={LATER * 40000}"
)
"""Java's own thresholds, so many times: an executor's few loops over rows exceed them at once, and only these are worth optimising."""


def spark_conf(driver: str = "", executor: str = "") -> dict[str, str]:
    """Conf for the JVMs of a dataflow, which every user can override; ``driver``, ``executor``: further options.

    >>> spark_conf("-Da=b")["spark.driver.defaultJavaOptions"].split()[:2]
    ['-Da=b', '-XX:TieredStopAtLevel=1']
    """
    of_driver = cds.spark_conf(f"{driver} {DRIVER_OPTIONS}".strip(), roles=("driver",))
    return of_driver | cds.spark_conf(f"{executor} {EXECUTOR_OPTIONS}".strip(), roles=("executor",))


@functools.cache
def java_home() -> str:
    """The home directory of a Java 17 or 21.

    Raises:
        InvalidSettings: there is none; the message has how to get it.
    """
    named = os.environ.get("JAVA_HOME")
    found = [Path(named, "bin", "java")] if named else []
    on_path = shutil.which("java")
    found += [Path(on_path).resolve()] if on_path else []
    for java in found:
        if _version(java) in SUPPORTED:
            return str(java.parent.parent)
    seen = ", ".join(f"{java} is version {_version(java)}" for java in found) or "no java on the PATH"
    raise InvalidSettings(
        f"Spark needs Java 17 or 21 ({seen}). Install it, for example `apt-get install openjdk-17-jre-headless`, "
        "or set JAVA_HOME to it."
    )


def _version(java: Path) -> int | None:
    try:
        out = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return None
    match = re.search(r'version "(\d+)', out)
    return int(match.group(1)) if match else None
