"""Finds the Java runtime that Spark needs: 17 or 21, from JAVA_HOME or the PATH."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from binshift.errors import InvalidSettings

SUPPORTED = (17, 21)
QUICK_TO_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java process that runs for minutes on a few shared cores, or is almost idle: the optimising compiler
would take more time than its code saves."""


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
