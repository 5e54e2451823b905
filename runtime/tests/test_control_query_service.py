"""A query behind the control API, with the real protocol, log and stores underneath, and no Spark."""

from __future__ import annotations

import pytest
from control_fakes import ADMIN
from control_simulated import BINS, World
from prometheus_client.registry import CollectorRegistry
from starlette.testclient import TestClient

from binshift.control.app import control_app
from binshift.control.auth import Tokens
from binshift.control.models import EpochUnderWay, State
from binshift.control.requests import TargetRequest
from binshift.control.service_holder import ServiceHolder
from binshift.engine.epoch_progress import EpochProgress, EpochStage
from binshift.errors import DrainRefused, EpochFailed, Fenced, NoSuchMigration, TargetOutdated
from binshift.metrics import Observed, RuntimeMetrics
from binshift.model import Epoch, Worker

UID = "7d3c"


@pytest.fixture
def world() -> World:
    return World()


def target(generation: int, *workers: int) -> TargetRequest:
    return TargetRequest(owner=UID, generation=generation, workers=list(workers))


def test_the_snapshot_has_the_dataflow(world: World) -> None:
    """Names, epoch, route, workers, rates and latency are those of the query; there is no target yet."""
    seen = world.service.snapshot()
    assert (seen.state, seen.name, seen.id, seen.run_id) == (State.RUNNING, "clicks", "query-id", "run-id")
    assert (seen.epoch, seen.route_version, seen.bins, seen.workers) == (2, 0, BINS, [0, 1])
    assert seen.registered == [0, 1, 2, 3]
    assert seen.target is None
    assert seen.migration is None
    assert seen.latency is not None
    assert 0.4 <= seen.latency.p50_seconds <= seen.latency.p99_seconds <= seen.latency.max_seconds == 0.8
    assert seen.rates is not None
    assert seen.rates.input_rows_per_second == pytest.approx(30 / seen.rates.window_seconds)
    assert world.service.unready() == ""


def test_the_epoch_under_way_is_told_with_its_age(world: World) -> None:
    """A running epoch is reported with its stage and its age; between epochs there is none."""
    assert world.service.snapshot().under_way is None
    began = EpochProgress(Epoch(3), world.now - 12.5)
    world.query.epochs.progress = began.at(EpochStage.JOB, 2)
    assert world.service.snapshot().under_way == EpochUnderWay(epoch=3, runs=3, part="job", seconds=12.5)
    world.now -= 60.0
    seen = world.service.snapshot().under_way
    assert seen is not None
    assert seen.seconds == 0.0


@pytest.mark.parametrize("part", EpochStage)
def test_every_part_of_an_epoch_can_be_told(world: World, part: EpochStage) -> None:
    """Every stage of an epoch has a name in the API."""
    world.query.epochs.progress = EpochProgress(Epoch(3), world.now).at(part, 0)
    seen = world.service.snapshot().under_way
    assert seen is not None
    assert seen.part == part.value


def test_a_failing_epoch_has_a_reason(world: World) -> None:
    """The reason is reported while its runs fail, not only after its end."""
    world.query.epochs.progress = EpochProgress(Epoch(3), world.now).at(EpochStage.JOB, 2, "the disk is full")
    seen = world.service.snapshot().under_way
    assert seen is not None
    assert (seen.runs, seen.trouble) == (3, "the disk is full")


@pytest.mark.parametrize("reads", [0, 7])
def test_times_of_a_migration_are_its_own(world: World, reads: int) -> None:
    """Start, end and latencies of a migration do not depend on how often it is read."""
    requested_at = world.now
    begun = world.service.put_target(target(4, 0, 1, 2, 3))
    assert begun is not None
    world.settle()
    first, ended_at = world.service.migration(begun.id), world.query.migrations[0].ended_at
    for _ in range(5):
        world.epoch()
        for _ in range(reads):
            world.service.observed()
            world.service.snapshot()
    done = world.service.migration(begun.id)
    assert done.started_at is not None
    assert done.ended_at is not None
    assert (done.started_at.timestamp(), done.ended_at.timestamp()) == (requested_at, ended_at)
    assert done == first


def test_a_target_settles(world: World) -> None:
    """A target is desired at once and settled when its bins have moved; its migration has its generation and times."""
    requested_at = world.now
    begun = world.service.put_target(target(4, 0, 1, 2, 3))
    assert begun is not None
    seen = world.service.snapshot()
    assert seen.target is not None
    assert (seen.target.generation, seen.target.workers, seen.target.settled) == (4, [0, 1, 2, 3], False)
    assert seen.migration is not None
    assert (seen.migration.id, seen.migration.generation, seen.migration.workers) == (begun.id, 4, [0, 1, 2, 3])
    world.settle()
    done = world.service.migration(begun.id)
    assert (done.phase, done.bins_moved, done.bins_total) == ("settled", BINS // 2, BINS // 2)
    assert done.started_at is not None
    assert done.started_at.timestamp() == requested_at
    assert done.ended_at is not None
    assert done.latency_before is not None
    assert done.latency_before.epochs == 3
    assert done.latency_during is not None
    seen = world.service.snapshot()
    assert seen.target is not None
    assert seen.target.settled
    assert world.service.put_target(target(4, 0, 1, 2, 3)) is None
    with pytest.raises(TargetOutdated):
        world.service.put_target(target(3, 0))


def test_a_cancelled_target_is_not_settled(world: World) -> None:
    """A rescale that was cancelled half way has bins on every worker, and still does not match the target."""
    fluid = TargetRequest(owner=UID, generation=1, workers=[0, 1, 2, 3], strategy="Fluid")
    begun = world.service.put_target(fluid)
    assert begun is not None
    while len(world.service.snapshot().workers) < 4:
        world.epoch()
    world.service.cancel(begun.id, rollback=False)
    world.settle()
    seen = world.service.snapshot()
    assert seen.migration is not None
    assert seen.target is not None
    assert (seen.migration.phase, seen.workers, seen.target.settled) == ("cancelled", [0, 1, 2, 3], False)


def test_rolling_back_is_another_migration(world: World) -> None:
    """Cancelling with a rollback moves the bins back; an unknown migration is not found."""
    begun = world.service.put_target(target(1, 0, 1, 2, 3))
    assert begun is not None
    world.settle()
    back = world.service.cancel(begun.id, rollback=True)
    assert back.id == begun.id + 1
    world.settle()
    assert world.service.snapshot().workers == [0, 1]
    assert [each.id for each in world.service.migrations(1)] == [back.id]
    with pytest.raises(NoSuchMigration, match="99"):
        world.service.migration(99)


def test_a_drain_changes_what_is_effective_only(world: World) -> None:
    """A drained worker is no longer effective but still desired, so its target is not settled."""
    world.service.put_target(target(1, 0, 1, 2))
    world.settle()
    world.service.drain(Worker(2))
    world.settle()
    seen = world.service.snapshot()
    assert seen.workers == [0, 1]
    assert seen.target is not None
    assert (seen.target.workers, seen.target.effective_workers) == ([0, 1, 2], [0, 1])
    assert not seen.target.settled
    loads = {load.worker: load for load in world.service.workers()}
    assert [(w, loads[w].bins, loads[w].effective) for w in (0, 2)] == [(0, 4, True), (2, 0, False)]


def test_bins_are_told_page_by_page(world: World) -> None:
    """Pages follow each other without a gap; sizes are those of the snapshots, if any exist."""
    for _ in range(20):
        world.epoch()
    first = world.service.bins(None, 0, 5)
    second = world.service.bins(None, first.next or 0, 5)
    assert [b.bin for b in (*first.bins, *second.bins)] == list(range(BINS))
    assert second.next is None
    assert {b.worker for b in world.service.bins(Worker(1), 0, 100).bins} == {1}
    sizes = [load.keys for load in world.service.workers() if load.bins]
    assert all(sizes)
    keys = {row for load in world.service.bins(None, 0, 100).bins for row in [load.rows]}
    assert None not in keys


def test_copies_show_while_they_are_made(world: World) -> None:
    """During a migration the destinations hold copies and the metrics show their lag; afterwards there are none."""
    world.service.put_target(target(1, 0, 1, 2, 3))
    seen, lags = set(), set()
    for _ in range(100):
        if all(each.ended for each in world.query.migrations):
            break
        seen |= {copy.worker for load in world.service.bins(None, 0, BINS).bins for copy in load.copies}
        lags.add(world.service.observed().copy_lag_epochs)
        world.epoch()
    assert {2, 3} <= seen
    assert any(isinstance(lag, int) for lag in lags)
    world.epoch()
    world.epoch()
    assert world.service.observed().copy_lag_epochs is None


def test_stopping_returns_at_once_and_ends_stopped(world: World) -> None:
    """A stop runs once, independently of the request; then drains are rejected and the query is not ready."""
    world.service.stop()
    world.service.stop()
    assert world.query.stopped.wait(10)
    assert world.service.snapshot().state is State.STOPPED
    assert "Stopped" in world.service.unready()
    with pytest.raises(DrainRefused, match="stops"):
        world.service.drain(Worker(1))


@pytest.mark.parametrize(
    ("error", "state"),
    [(Fenced("term 3 took over"), State.FENCED), (EpochFailed("e"), State.FAILED), (None, State.FINISHED)],
)
def test_an_ended_query_has_its_outcome(world: World, error: Exception | None, state: State) -> None:
    """An error determines state and reason; an end without an error or a request is a finished stream."""
    world.query.isActive, world.query.error = False, error  # type: ignore[assignment]
    seen = world.service.snapshot()
    assert (seen.state, seen.reason) == (state, str(error or ""))


def test_reads_survive_the_end_of_spark(world: World) -> None:
    """After the end of Spark, the contents of the log can still be read, and the query is not ready."""
    world.query.spark_is_gone = True
    seen = world.service.snapshot()
    assert (seen.state, seen.registered, seen.workers) == (State.FAILED, [], [0, 1])
    assert "JVM" in world.service.unready()
    assert world.service.observed().executors == 0


def test_what_alerts_need_is_observed(world: World) -> None:
    """These are the state, the workers of the target, the latency that paces moves, and the age of the epoch."""
    seen = world.service.observed()
    assert [name for name, now in seen.state.items() if now] == ["Running"]
    assert (seen.target_workers, seen.epoch_running_seconds, seen.migration_left_seconds) == (None, 0.0, None)
    body = {"owner": UID, "generation": 1, "workers": [0, 1, 2], "latencyTargetSeconds": 0.25}
    wanted = TargetRequest.model_validate(body)
    world.service.put_target(wanted)
    world.settle()
    world.query.epochs.progress = EpochProgress(Epoch(3), world.now - 60)
    seen = world.service.observed()
    assert (seen.target_workers, seen.latency_target_seconds, seen.migration_left_seconds) == (3, 0.25, 0.0)
    assert seen.epoch_running_seconds is not None
    assert seen.epoch_running_seconds >= 60
    world.service.stop()
    assert world.query.stopped.wait(10)
    assert [name for name, now in world.service.observed().state.items() if now] == ["Stopped"]


def test_before_the_query_only_the_state_is_known() -> None:
    """A program that has no query yet reports that it loads."""
    seen = ServiceHolder().current.observed()
    assert seen == Observed(state={state.value: state is State.LOADING for state in State})


def test_no_worker_is_not_ready(world: World) -> None:
    """A query that runs without any executor is not ready."""
    world.query.epochs.ports.executors.alive = dict
    assert world.service.unready() == "no worker is registered with Spark"


def test_the_whole_way_over_http(world: World) -> None:
    """From a PUT to settled, drained and stopped, over HTTP, with metrics that follow."""
    registry = CollectorRegistry()
    RuntimeMetrics(registry, world.service.epochs, world.service.observed)
    app = control_app(ServiceHolder(world.service), Tokens(ADMIN), registry)
    api = TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"})
    assert 'binshift_record_latency_seconds_count{moving="true"} 0.0' in api.get("/metrics").text
    answer = api.put("/v1/target", json={"owner": UID, "generation": 1, "workers": [0, 1, 2]})
    assert answer.status_code == 202
    world.settle()
    assert api.get("/v1/dataflow").json()["target"]["settled"] is True
    assert api.get("/v1/migrations").json()["migrations"][0]["phase"] == "settled"
    assert 'binshift_migration_phase{phase="settled"} 1.0' in api.get("/metrics").text
    assert 'binshift_worker_bins{worker="2"}' in api.get("/metrics").text
    while_moving = 'binshift_record_latency_seconds_count{moving="true"}'
    assert while_moving in api.get("/metrics").text
    assert f"{while_moving} 0.0" not in api.get("/metrics").text
    assert api.post("/v1/workers/2/drain").status_code == 202
    assert api.delete("/v1/migrations/77").status_code == 404
    assert api.put("/v1/target", json={"owner": "", "generation": 9, "workers": [0]}).json()["error"] == "TargetOwned"
    assert api.post("/v1/stop").status_code == 202
    assert world.query.stopped.wait(10)
    assert api.post("/v1/workers/1/drain").status_code == 409
