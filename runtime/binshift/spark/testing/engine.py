"""The engine of a query with one operator, over machinery in this process."""

from __future__ import annotations

from binshift.engine.dataflow import Dataflow
from binshift.engine.executor_wait import EpochLimits
from binshift.engine.migration_options import MigrationOptions
from binshift.engine.migrations import MigrationPolicy
from binshift.engine.ports import Ports
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.storage.contract import Storage
from binshift.model import Epoch
from binshift.spark.testing.workers import Batch
from binshift.strategies import Strategy

OPERATOR = "0.transformWithStateInPySparkExec"
MANIFEST_EVERY_EPOCHS = 8


def start(storage: Storage, committed: Epoch, ports: Ports[Batch], bins: int, workers: int) -> Dataflow:
    """Open the log as a new driver.

    Args:
        storage: of the log.
        committed: the last epoch that the stream has committed.
        ports: the machinery.
        bins: the number of bins.
        workers: how many begin.
    """
    format = LogFormat(bins=bins, query="test", operators=(OperatorFormat(OPERATOR, "test"),))
    log = Log.on(storage, format, who="test", spark_committed=lambda: committed)
    policy, defaults = MigrationPolicy(bins, workers), MigrationOptions(Strategy.ALL_AT_ONCE)
    every = MANIFEST_EVERY_EPOCHS
    running = Dataflow.over(ports, log, (OPERATOR,), policy, defaults, EpochLimits(), manifest_every_epochs=every)
    running.resume()
    return running
