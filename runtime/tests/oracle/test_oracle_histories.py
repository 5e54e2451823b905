"""At least two hundred random histories, each repeatable: ``BINSHIFT_SEED=17 make oracle`` repeats that one.

In each, input, migrations by all strategies, kills, lost responses, suspended processes and drivers that take over come in
random order. After every epoch and round the cluster runs the checks of `simulator.Witness`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle_histories import History, play

from binshift.log.storage.opening import open_storage
from binshift.model import Worker
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb

pytestmark = pytest.mark.oracle

ASKED = os.environ.get("BINSHIFT_SEED")
SEEDS = [int(ASKED)] if ASKED else range(220)
MOODY_SEEDS = [int(ASKED)] if ASKED else range(30)
DISK_SEEDS = [int(ASKED)] if ASKED else range(300, 308)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_ends_as_the_reference(seed: int) -> None:
    """Under any faults, output, state and log of a dataflow are those of the reference, and all migrations end."""
    play(seed)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", MOODY_SEEDS)
def test_the_recorded_state_wins(seed: int) -> None:
    """With a function that leaves another state in every attempt, all stores and copies hold what the records name (I2)."""
    play(seed, moody=True)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """An empty directory; LMDB environments in it are closed afterwards."""
    yield tmp_path
    close_environments(tmp_path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # killed processes close no files
@pytest.mark.parametrize("seed", DISK_SEEDS)
def test_a_history_on_disk(seed: int, directory: Path) -> None:
    """The same holds with LMDB below the stores and a directory, or an object store, below the log."""
    made = 0

    def new_store(operator: str, worker: Worker) -> KeyValueStore:
        nonlocal made
        made += 1
        return open_lmdb(directory / f"{operator}-{worker}-{made}", StoreLimits(map_bytes_max=8 << 20))

    url = str(directory / "log") if seed % 2 else f"memory://{directory}"
    play(seed, files=open_storage(url, {"durable": "false"} if seed % 2 else {}), new_store=new_store)


@pytest.mark.parametrize("seed", [int(ASKED)] if ASKED else range(400, 408))
def test_a_disturbed_run_equals_an_undisturbed_one(seed: int) -> None:
    """Output by epoch and final state equal those of a run with the same input, one worker and no events (I5)."""
    disturbed = play(seed)
    undisturbed = History(seed, faulty=False)
    for batch in disturbed.world.stream.batches:
        undisturbed.cluster.epoch(batch.rows)
    for epoch, outputs in undisturbed.cluster.outputs.items():
        for flow, rows in outputs.items():
            assert sorted(map(str, rows)) == sorted(map(str, disturbed.outputs[epoch][flow])), (seed, epoch, flow)
    for flow in disturbed.world.flows:
        assert disturbed.state(flow) == undisturbed.cluster.state(flow), seed
