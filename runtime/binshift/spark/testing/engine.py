"""The engine of a query with one operator, over machinery in this process."""

from __future__ import annotations

from binshift.engine.background_loop import BackgroundLoop
from binshift.engine.coordinator import Coordinator
from binshift.engine.dataflow import Dataflow
from binshift.engine.epoch_loop import EpochLoop
from binshift.engine.housekeeping import Housekeeping
from binshift.engine.migration_controller import MigrationController
from binshift.engine.migration_options import MigrationOptions
from binshift.engine.migrations import MigrationPolicy
from binshift.engine.ports import Ports
from binshift.engine.target_controller import TargetController
from binshift.log.log import Log
from binshift.log.records.formats import LogFormat, OperatorFormat
from binshift.log.storage.contract import Storage
from binshift.model import Epoch
from binshift.spark.testing.workers import Batch
from binshift.strategies import Strategy

OPERATOR = "0.transformWithStateInPySparkExec"
MANIFEST_EVERY_EPOCHS = 8
COLLECT_EVERY_EPOCHS = 16


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
    migrations = MigrationController(MigrationPolicy(bins, workers), (OPERATOR,), log.term, ports.clock)
    # The time for garbage stands still: a test never runs for long.
    house = Housekeeping(log, MANIFEST_EVERY_EPOCHS, COLLECT_EVERY_EPOCHS, lambda: 0.0)
    coordinator = Coordinator(log, (OPERATOR,), migrations, house)
    targets = TargetController(log, coordinator, MigrationOptions(Strategy.ALL_AT_ONCE))
    epochs = EpochLoop[Batch](coordinator, ports, targets.replace_lost)
    background = BackgroundLoop(coordinator, ports, targets, house, epochs.in_epoch)
    running = Dataflow(log, coordinator, targets, epochs, background)
    running.resume()
    return running
