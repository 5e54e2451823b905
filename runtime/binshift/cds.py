"""Class data sharing: processes map Spark's classes from one file instead of reading, checking and linking each class.

Half of what a driver's JVM computes until its first job is the loading of some 20,000 classes; with an archive
(``-XX:SharedArchiveFile``, JDK 13 and later, "AppCDS") it is mostly gone, and processes on one machine share the pages.
``python -m binshift.cds`` writes one next to the Python that runs it, and all processes of binshift find it there; the image
has one. It only saves time: if there is no archive, or it does not fit, Java loads classes as usual.

An archive fits the class path it was made with, with anything appended. Spark names its jars as ``jars/*``, which Java lists in
the order of the file system, and this order differs between the layers of an image. So one generated jar names them in order of
name; it is the whole class path when the archive is made, and comes first in every later class path.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

ROLES: Final = ("driver", "executor")
FOLDER: Final = Path(sys.prefix, "share", "binshift", "classes")
JAR, ARCHIVE = "spark.jar", "spark.jsa"
TRAINING: Final = Path(__file__).parent / "spark" / "training.py"
TRAINING_SECONDS_MAX: Final = 900
"""It takes half a minute; on a machine that others load, ten times that was too little."""
QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""An archive that does not fit is no news: what reads a JVM's output does not expect any."""
IN_PLACE: Final = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
"""Mapped where it was made for, as Java 17.0.0 does by itself; moved elsewhere, its pages are written to and each process has its
own: measured, a master of 251 MiB instead of 122 MiB (155 MiB without an archive)."""
MANIFEST_BYTES: Final = 70
SHIM: Final = """#!{python}
import os, sys
arguments = sys.argv[1:]
if any(each.startswith("-XX:ArchiveClassesAtExit") for each in arguments):
    arguments[arguments.index("-cp") + 1] = {jar!r}
os.execv({java!r}, [{java!r}, *arguments])
"""
"""Java for Spark's launcher, which would add its conf folder and ``jars/*`` to the class path."""


def java_options(folder: Path = FOLDER) -> str:
    """Options for a JVM whose class path begins with `class_path`; nothing where there is no archive."""
    archive = folder / ARCHIVE
    return f"-XX:SharedArchiveFile={archive} {IN_PLACE} {QUIET}" if archive.is_file() else ""


def class_path(folder: Path = FOLDER) -> str:
    """What the class path has to begin with; nothing where there is no archive."""
    return str(folder / JAR) if (folder / ARCHIVE).is_file() else ""


def spark_conf(options: str = "", folder: Path = FOLDER, roles: Sequence[str] = ROLES) -> dict[str, str]:
    """Conf for drivers and executors, which every user can override.

    Args:
        options: further options for each of the roles.
        folder: of the archive.
        roles: for whom.
    """
    found = {f"spark.{each}.extraClassPath": class_path(folder) for each in roles}
    found |= {f"spark.{each}.defaultJavaOptions": _joined(options, java_options(folder)) for each in roles}
    return {key: value for key, value in found.items() if value}


def daemon_environment(options: str = "", folder: Path = FOLDER) -> dict[str, str]:
    """Variables for Spark's master and workers; arguments as `spark_conf`."""
    found = {
        "SPARK_DAEMON_CLASSPATH": class_path(folder),
        "SPARK_DAEMON_JAVA_OPTS": _joined(options, java_options(folder)),
    }
    return {variable: value for variable, value in found.items() if value}


def manifest(folder: Path, paths: Sequence[Path]) -> str:
    """The manifest of a jar in ``folder`` that names other jars (JAR file specification: lines of 72 bytes, continued after a space).

    They are named as seen from there: a JVM that makes an archive overlooks any other form.

    >>> print(manifest(Path("/opt/share"), [Path("/opt/lib/b.jar"), Path("/opt/share/a.jar")]))
    Manifest-Version: 1.0
    Class-Path: ../lib/b.jar a.jar
    <BLANKLINE>
    """
    line = "Class-Path: " + " ".join(quote(os.path.relpath(path, folder)) for path in paths)
    first, rest = line[:MANIFEST_BYTES], line[MANIFEST_BYTES:]
    pieces = [first, *(f" {rest[at : at + MANIFEST_BYTES]}" for at in range(0, len(rest), MANIFEST_BYTES))]
    return "\n".join(["Manifest-Version: 1.0", *pieces, ""])


def make(folder: Path = FOLDER) -> None:
    """Write the archive of this Python's PySpark and the Java in JAVA_HOME; takes half a minute.

    Raises:
        FileNotFoundError: PySpark is not installed.
        KeyError: JAVA_HOME is not set.
        subprocess.SubprocessError: the program that loads the classes failed, or took too long.
    """
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise FileNotFoundError("PySpark is not installed with this Python")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ARCHIVE).unlink(missing_ok=True)
    jars = sorted(Path(pyspark.origin).parent.joinpath("jars").glob("*.jar"))
    with zipfile.ZipFile(folder / JAR, "w") as out:
        out.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), manifest(folder, jars))
    with tempfile.TemporaryDirectory(prefix="binshift-cds-") as directory:
        _train(folder, Path(directory))
    (folder / ARCHIVE).chmod(0o644)


def _train(folder: Path, directory: Path) -> None:
    options = f"-XX:ArchiveClassesAtExit={folder / ARCHIVE} {QUIET} -Djava.io.tmpdir={directory}"
    shim = directory / "java" / "bin" / "java"
    shim.parent.mkdir(parents=True)
    java = f"{os.environ['JAVA_HOME']}/bin/java"
    shim.write_text(SHIM.format(python=sys.executable, jar=str(folder / JAR), java=java), encoding="utf-8")
    shim.chmod(0o755)
    variables = {
        "JAVA_HOME": str(shim.parent.parent),
        "PYSPARK_SUBMIT_ARGS": shlex.join(["--driver-java-options", options, "pyspark-shell"]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, str(TRAINING), str(directory)],
        env=os.environ | variables,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TRAINING_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0 or not (folder / ARCHIVE).is_file():
        sys.stderr.write(done.stdout[-4000:])
        raise subprocess.CalledProcessError(done.returncode, "training")


def _joined(*options: str) -> str:
    return " ".join(filter(None, options))


if __name__ == "__main__":
    make()
    sys.stdout.write(f"{FOLDER / ARCHIVE}: {(FOLDER / ARCHIVE).stat().st_size / 2**20:.0f} MiB\n")
