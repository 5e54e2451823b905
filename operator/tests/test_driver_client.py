"""The client of the control API: requests, errors, and answers of other versions."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from crd_cases import BASE

from binshift_operator import driver_client
from binshift_operator.driver_answers import parse_runtime
from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Changed, Forbidden, Invalid, NotThere, Unreachable
from binshift_operator.model.driver_settings import DriverSettings
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.snapshots import ObservedSnapshot, SnapshotPhase
from binshift_operator.model.specification import parse


class FakeDriver:
    """A driver that gives one prepared response, or raises one error, and records the requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any, status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.requests: list[httpx2.Request] = []
        transport = httpx2.MockTransport(self.respond)
        monkeypatch.setattr(driver_client, "make_client", lambda _: httpx2.Client(transport=transport))

    def respond(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.status == 204:
            return httpx2.Response(204, stream=httpx2.ByteStream(b""))
        return httpx2.Response(self.status, stream=httpx2.ByteStream(json.dumps(self.answer).encode()))


def test_target_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target carries owner, generation, workers and the migration policy, with the token, which is never shown."""
    driver = FakeDriver(monkeypatch, {"migration": None})
    manifest = {**BASE, "metadata": {**BASE["metadata"], "namespace": "ns", "uid": "u", "generation": 3}}
    control = DriverClient("http://driver:7400", "secret-token")
    control.put_target(parse(manifest), 3001, (0, 1))
    request = driver.requests[0]
    assert (request.method, str(request.url)) == ("PUT", "http://driver:7400/v1/target")
    assert request.headers["Authorization"] == "Bearer secret-token"
    assert json.loads(request.content) == {
        "owner": "u",
        "generation": 3001,
        "workers": [0, 1],
        "strategy": "Optimized",
        "batchSize": 256,
        "preCopy": True,
        "latencyTargetSeconds": None,
    }
    assert "secret-token" not in repr(control)


def test_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance, and settings; null is no bound."""
    driver = FakeDriver(monkeypatch, {})
    control = DriverClient("http://driver:7400", "secret-token")
    control.rebalance()
    for seconds in (2.5, None):
        control.put_settings(DriverSettings(seconds))
    sent = [(each.method, each.url.path, json.loads(each.content)) for each in driver.requests]
    assert sent == [
        ("POST", "/v1/rebalance", {}),
        ("PUT", "/v1/settings", {"maxEpochSeconds": 2.5}),
        ("PUT", "/v1/settings", {"maxEpochSeconds": None}),
    ]


def test_settings_are_read() -> None:
    """A driver without them is an older one."""
    answer = {"state": "Running"}
    assert parse_runtime(answer).settings is None
    for seconds in (2.5, None):
        settings = {"maxEpochSeconds": seconds}
        assert parse_runtime({**answer, "settings": settings}).settings == DriverSettings(seconds)


SNAPSHOT = {
    "name": "first", "location": "s3a://b/first", "state": "Copying", "reason": "", "epoch": 41, "files": 7, "bytes": 900,
    "copiedFiles": 3, "copiedBytes": 400, "startedAt": "2001-09-09T01:46:40.5Z", "finishedAt": None,
}  # fmt: skip


def test_snapshots_are_requested_and_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request names the snapshot and its location, and the report has its figures."""
    driver, control = FakeDriver(monkeypatch, SNAPSHOT), DriverClient("http://driver", "t")
    found = control.put_snapshot("first", "s3a://b/first")
    assert found == control.snapshot("first")
    assert found == ObservedSnapshot("s3a://b/first", SnapshotPhase.COPYING, "", 41, 7, 900, 400, 1e9)
    assert [(each.method, each.url.path) for each in driver.requests] == [
        ("PUT", "/v1/snapshots/first"),
        ("GET", "/v1/snapshots/first"),
    ]
    assert json.loads(driver.requests[0].content) == {"location": "s3a://b/first"}


def test_files_of_a_snapshot_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The location arrives as it is, whatever is in it, and the response has no content."""
    driver = FakeDriver(monkeypatch, None, 204)
    DriverClient("http://driver", "t").delete_snapshot("first", "s3a://b/a&b=c#d/e f")
    assert (driver.requests[0].method, driver.requests[0].url.path) == ("DELETE", "/v1/snapshots/first")
    assert driver.requests[0].url.params["location"] == "s3a://b/a&b=c#d/e f"


@pytest.mark.parametrize(
    "answer", [[], {}, {"state": "Copying"}, {**SNAPSHOT, "state": "Lost"}, {**SNAPSHOT, "bytes": "x"}]
)
def test_strange_report_is_no_report(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """What cannot be parsed counts as no response, and never as the end of a snapshot."""
    FakeDriver(monkeypatch, answer)
    with pytest.raises(Unreachable):
        DriverClient("http://driver", "t").snapshot("first")


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (409, "outdated", Changed),
        (401, "who are you", Forbidden),
        (422, "no such field", Invalid),
        (404, "no such migration", NotThere),
        (503, "not yet", Unreachable),
    ],
)
def test_answers_become_errors(
    monkeypatch: pytest.MonkeyPatch, status: int, message: str, error: type[Exception]
) -> None:
    """An error response of the driver becomes the error that the operator acts upon, with the driver's message."""
    FakeDriver(monkeypatch, {"message": message}, status)
    with pytest.raises(error, match=message):
        DriverClient("http://driver", "t").stop()


def test_no_connection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that refuses the connection is unreachable."""
    FakeDriver(monkeypatch, httpx2.ConnectError("refused"))
    with pytest.raises(Unreachable, match="refused"):
        DriverClient("http://driver", "t").stop()


@pytest.mark.parametrize(("limit", "fits"), [(60, False), (70, True)])
def test_answer_is_bounded(monkeypatch: pytest.MonkeyPatch, limit: int, fits: bool) -> None:
    """A response that is too long is not read to its end."""
    monkeypatch.setattr(driver_client, "ANSWER_BYTES_MAX", limit)
    FakeDriver(monkeypatch, {"message": "m" * 48})
    if fits:
        DriverClient("http://driver", "t").stop()
    else:
        with pytest.raises(Unreachable, match="longer than 60 bytes"):
            DriverClient("http://driver", "t").stop()


def test_unparsable_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of a newer driver counts as no response."""
    FakeDriver(monkeypatch, {"state": "Dreaming"})
    with pytest.raises(Unreachable):
        DriverClient("http://driver", "t").dataflow()


def test_answer_of_the_control_api_is_parsed() -> None:
    """The models of the control API produce a response that is parsed in full."""
    models = pytest.importorskip("binshift.control.models")
    latency = models.Latency(epochs=1, p50_seconds=0.1, p95_seconds=0.2, p99_seconds=0.3, max_seconds=0.4)
    answer = models.Dataflow(
        state=models.State.RUNNING,
        epoch=9,
        committed_at=models.moment(1e9),
        route_version=4,
        workers=[0, 1],
        registered=[0],
        latency=latency,
        target=models.Target(
            owner="u", generation=3001, workers=[0], strategy="Fluid", batch_size=1, pre_copy=True,
            latency_target_seconds=1.0, effective_workers=[0], settled=False,
        ),
        migration=models.Migration(
            id=2, phase="copying", reason="", generation=3001, workers=[0], strategy="Fluid", batch_size=1, pre_copy=True,
            bins_moved=3, bins_total=8, started_at=models.moment(1e9), ended_at=None, latency_before=latency,
        ),
    )  # fmt: skip
    found = parse_runtime(json.loads(answer.model_dump_json(by_alias=True)))
    assert (found.state, found.epoch, found.committed_at, found.route_version) == (RunState.RUNNING, 9, 1e9, 4)
    assert (found.holding, found.registered, found.latency_p99) == (frozenset({0, 1}), frozenset({0}), 0.3)
    assert found.target is not None
    assert (found.target.generation, found.target.settled) == (3001, False)
    assert found.migration is not None
    assert (found.migration.bins_moved, found.migration.latency_before, found.migration_workers) == (
        3,
        0.3,
        frozenset({0}),
    )
