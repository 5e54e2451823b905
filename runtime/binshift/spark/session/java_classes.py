"""The few small Java classes that binshift adds to an unmodified Spark, compiled when a query starts.

Spark ships the Janino compiler, so users need no JDK and no build step.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from importlib import resources
from pathlib import Path
from typing import Any

SOURCES = (
    *("PinnedRDD", "NudgeSource", "BatchTime", "PlanTemplate", "EarlyAggregation"),
    *("PlannedTemplate", "LocalRows", "LocalTemplate", "StagedFiles"),
    *("StandingEnv", "StandingBlocks", "StandingInput", "StandingRows", "StandingOutput", "StandingContext"),
    *(
        "StandingAnswer",
        "StandingCode",
        "StandingDriver",
        "StandingRoute",
        "StandingReads",
        "StandingWork",
        "StandingTask",
        "StandingResult",
        "StandingStage",
    ),
    *("AggregateBuffer", "BufferedAggregate", "SourceLimits", "Bridge", "LocalCheckpointFiles"),
)
"""In an order in which a class uses only those before it."""


def compiled(jvm: Any) -> Path:
    """A jar with the classes, in a new temporary folder.

    Args:
        jvm: py4j's view of the driver's JVM.
    """
    texts = {name: (resources.files("binshift.spark") / "java" / f"{name}.java").read_text() for name in SOURCES}
    digest = hashlib.sha256("".join(texts.values()).encode()).hexdigest()[:12]
    jar = Path(tempfile.mkdtemp(prefix="binshift-")) / f"binshift-{digest}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
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
    return jar
