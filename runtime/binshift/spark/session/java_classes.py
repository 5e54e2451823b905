"""The few small Java classes that binshift adds to an unmodified Spark, compiled when a query starts or before.

Spark ships the Janino compiler, so users need no JDK and no build step. ``python -m binshift.spark.session.java_classes`` compiles them next
to the archive of `binshift.cds`, as the image's build does: that saves each driver 3.7 s of a core when it starts.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any, cast

import pyspark
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from binshift.cds import FOLDER

SOURCES = (
    *("PinnedRDD", "NudgeSource", "BatchTime", "PlanTemplate", "EarlyAggregation", "SingleAggregation"),
    *("PlannedTemplate", "LocalRows", "LocalTemplate", "StagedFiles"),
    *(
        "StandingEnv",
        "StandingBlocks",
        "StandingInput",
        "StandingRows",
        "Projections",
        "StandingOutput",
        "StandingContext",
    ),
    *("NumberedRows", "ReceivedRows", "ReceivedColumns", "StandingCode", "BatchPlan", "BatchRows", "BatchSink"),
    *(
        "StandingAnswer",
        "StandingDriver",
        "StandingRoute",
        "StandingReads",
        "StandingWork",
        "StandingTask",
        "StandingResult",
        "StandingFilling",
        "StandingBatch",
        "StandingStage",
    ),
    *("AggregateBuffer", "BufferedAggregate", "SourceLimits", "Bridge", "LocalCheckpointFiles"),
)
"""In an order in which a class uses only those before it."""


def jar_of(jvm: Any, folder: Path = FOLDER) -> Path:
    """The jar with the classes: one from ``folder`` if it fits these sources and this Spark, else a new one in a temporary folder.

    Args:
        jvm: py4j's view of the driver's JVM.
        folder: with jars that were compiled before.
    """
    texts = _texts()
    made = folder / _name(texts)
    return made if made.is_file() else _compiled(jvm, texts, Path(tempfile.mkdtemp(prefix="binshift-")))


def make(folder: Path = FOLDER) -> Path:
    """Compile the classes into ``folder``, with a JVM of its own; returns the jar."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where images are built, the machine's own name is not known
    gateway = cast(Any, launch_gateway)(SparkConf())
    try:
        return _compiled(gateway.jvm, _texts(), folder)
    finally:
        gateway.shutdown()


def _texts() -> dict[str, str]:
    return {name: (resources.files("binshift.spark") / "java" / f"{name}.java").read_text() for name in SOURCES}


def _name(texts: dict[str, str]) -> str:
    """The name of their jar: other sources, or another Spark, have another one."""
    digest = hashlib.sha256("\0".join((pyspark.__version__, *texts.values())).encode()).hexdigest()[:12]
    return f"binshift-{digest}.jar"


def _compiled(jvm: Any, texts: dict[str, str], folder: Path) -> Path:
    jar = folder / _name(texts)
    unfinished = jar.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w") as archive:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for text in texts.values():
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setTargetVersion(8)  # the first one with static methods of interfaces
            compiler.setParentClassLoader(loader)  # a class may use those before it
            compiler.cook(text)
            loader = compiler.getClassLoader()
            compiled = compiler.getBytecodes()
            for name in compiled.keySet():
                archive.writestr(name.replace(".", "/") + ".class", bytes(compiled.get(name)))
    return unfinished.rename(jar)


if __name__ == "__main__":
    sys.stdout.write(f"{make()}\n")
