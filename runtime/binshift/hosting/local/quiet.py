"""What of Spark reaches the terminal of `binshift run`: warnings. The rest stays in files in the cluster's folder.

Spark's driver and executors use binshift's logging configurations, each with a file of a bounded size. `Sieve` passes on
warnings from the driver's file. From an executor's output it removes what Spark and Java write at each start and end; the
output of users' functions is left. Nothing is lost: Spark keeps an executor's output in
``worker-N/APPLICATION/EXECUTOR/stderr``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

DRIVER_LOG: Final = "driver.log"
EXECUTOR_LOG: Final = "spark.log"
"""In the executor's own folder, next to its ``stderr``."""

FILE: Final = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 16MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
logger.pools.name = org.apache.spark.scheduler.FairSchedulableBuilder
logger.pools.level = error
logger.blocks.name = org.apache.spark.storage.BlockManagerMasterEndpoint
logger.blocks.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = info
"""
"""Level INFO holds until Spark sets that of ``spark.log.level``. The first two loggers warn of nothing, at every start; the third names each
block that an executor had when it ended, which the epoch's next run does not need. Spark sets the root's level to that of
the last one at the start, and writes two lines about it on the terminal if they differ."""

WARNINGS: Final = """\
rootLogger.appenderRef.terminal.ref = terminal
appender.terminal.type = Console
appender.terminal.name = terminal
appender.terminal.target = SYSTEM_ERR
appender.terminal.layout.type = PatternLayout
appender.terminal.layout.pattern = %d{{yy/MM/dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.terminal.filter.threshold.type = ThresholdFilter
appender.terminal.filter.threshold.level = warn
"""
"""For an executor: warnings stand among what users' functions print."""

OF_SPARK: Final = re.compile(rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
OF_JAVA: Final = re.compile(
    rb"\s+at |\s+\.\.\. \d+ more|Caused by: |(java|javax|org|io|scala|py4j)\.[\w.$]*(Exception|Error|Throwable)(:|$)"
)
LOW: Final = (b"TRACE", b"DEBUG", b"INFO")
COMMAND: Final = b"Spark Executor Command: "
RULE: Final = b"=" * 40
"""Spark's, below the command."""
OF_A_START: Final = (
    COMMAND,
    b"WARNING: Using incubator modules: ",
    b"Using Spark's default log4j profile: ",
    b"Setting Spark log level to ",
    b"OpenJDK 64-Bit Server VM warning: ",
)
"""How lines begin that each executor writes as it starts."""
TRACEBACK: Final = b"Traceback (most recent call last):"
CUT_OFF: Final = (b"BrokenPipeError", b"ConnectionResetError", b"EOFError")
"""A Python worker whose executor has ended meets these, and prints them with a traceback."""
TRACEBACK_LINES_MAX: Final = 1000
"""Held back at most."""


def configured(cluster: Path, options: Mapping[str, str]) -> dict[str, str]:
    """Write the two configurations; returns the conf that leads Spark's driver and executors to them.

    Args:
        cluster: the folder for them, and for the driver's log.
        options: conf with further Java options.
    """
    found = dict(options)
    written = {
        "driver": FILE.format(file=cluster / DRIVER_LOG),
        "executor": (FILE + WARNINGS).format(file=EXECUTOR_LOG),
    }
    for each, text in written.items():
        path = cluster / f"log4j2-{each}.properties"
        path.write_text(text, encoding="utf-8")
        key = f"spark.{each}.defaultJavaOptions"
        found[key] = f"-Dlog4j2.configurationFile={path.as_uri()} {found.get(key, '')}".rstrip()
    return found


class Sieve:
    """Lines of a worker's executors, or of the driver's log, without irrelevant ones.

    Attributes:
        ending: whether the executors are about to end: then output of Spark and cut-off Python workers about it is dropped.
    """

    def __init__(self) -> None:
        self.ending = False
        self._traceback: list[bytes] = []
        self._dropping = False
        self._after_command = False

    def passed(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Those to pass on; a traceback is held back until its last line has come."""
        for line in lines:
            if self._traceback:
                yield from self._in_traceback(line)
            elif line == TRACEBACK:
                self._traceback.append(line)
            elif self._is_relevant(line):
                yield line

    def rest(self) -> Iterator[bytes]:
        """What is held back, as no more lines will come."""
        whole, self._traceback = self._traceback, []
        yield from whole

    def _in_traceback(self, line: bytes) -> Iterator[bytes]:
        self._traceback.append(line)
        ended = line and not line.startswith((b" ", b"\t"))
        if ended and self.ending and line.startswith(CUT_OFF):
            self._traceback = []
        elif ended or len(self._traceback) >= TRACEBACK_LINES_MAX:
            yield from self.rest()

    def _is_relevant(self, line: bytes) -> bool:
        found = OF_SPARK.match(line)
        if found:
            self._dropping = found[1] in LOW or self.ending
        elif self._dropping and not _of_java(line):
            self._dropping = False
        banner = line.startswith(OF_A_START) or (self._after_command and line == RULE)
        self._after_command = line.startswith(COMMAND)
        return not self._dropping and not banner and bool(line.strip())


def _of_java(line: bytes) -> bool:
    """Whether the line continues a log event of Java: a stack, or the exception above it.

    >>> [_of_java(each) for each in (b"\\tat java.net.Socket.read", b"java.io.EOFException", b"Caused by: x", b"org.x prints")]
    [True, True, True, False]
    """
    return bool(OF_JAVA.match(line))
