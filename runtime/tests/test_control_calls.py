"""Each call of the control API: its effect on the query, its response, and the rejection of bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from control_fakes import ADMIN, BINS, FakeService, client
from prometheus_client.parser import text_string_to_metric_families

from binshift.control.auth import BODY_BYTES_MAX
from binshift.control.requests import RebalanceRequest, TargetRequest
from binshift.errors import (
    BinshiftError,
    DrainRefused,
    Fenced,
    MigrationRefused,
    NoQueryYet,
    NoSuchMigration,
    StorageUnavailable,
    TargetOutdated,
    TargetOwned,
)

TARGET: dict[str, Any] = {"owner": "7d3c", "generation": 3, "workers": [0, 1, 2]}


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/healthz", "status", "ok"),
        ("/readyz", "status", "ok"),
        ("/v1/dataflow", "state", "Running"),
        ("/v1/dataflow", "routeVersion", 3),
        ("/v1/dataflow", "target", None),
        ("/v1/bins?limit=5", "next", 5),
        ("/v1/bins", "next", None),
        ("/v1/migrations/4", "id", 4),
        ("/v1/migrations/4", "binsTotal", 8),
        ("/v1/migrations/4", "startedAt", "2023-11-14T22:13:20Z"),
        ("/v1/migrations/4", "secondsLeft", None),
    ],
)
def test_a_read_answers_in_camel_case(service: FakeService, path: str, field: str, value: object) -> None:
    """Each read returns its fields, with null for unknown values, and changes nothing."""
    answer = client(service).get(path)
    assert (answer.status_code, answer.json()[field]) == (200, value)
    assert service.writes == []


def test_lists_are_bounded(service: FakeService) -> None:
    """A list has as many entries as requested: the newest migrations, the first bins, or those of one worker."""
    api = client(service)
    assert [m["id"] for m in api.get("/v1/migrations?limit=2").json()["migrations"]] == [9, 10]
    assert [b["bin"] for b in api.get("/v1/bins?worker=1&first=4&limit=3").json()["bins"]] == [5, 7, 9]
    assert [w["worker"] for w in api.get("/v1/workers").json()["workers"]] == [0, 1]
    assert len(api.get("/v1/bins").json()["bins"]) == BINS


def test_readiness_has_the_reason(service: FakeService) -> None:
    """A query that is not ready returns 503 with a reason, while the process is alive."""
    service.reason = "no worker is registered with Spark"
    api = client(service, token=None)
    assert api.get("/readyz").status_code == 503
    assert api.get("/readyz").json() == {"status": "unavailable", "reason": service.reason}
    assert api.get("/healthz").status_code == 200


def test_a_target_reaches_the_query_as_it_was_sent(service: FakeService) -> None:
    """Every field arrives; the response has the migration that begins."""
    optional = {"strategy": "Batched", "batchSize": 8.0, "preCopy": False, "latencyTargetSeconds": 2}
    answer = client(service).put("/v1/target", json=TARGET | optional)
    assert (answer.status_code, answer.json()["migration"]["id"]) == (202, 11)
    assert service.writes == [("put_target", TargetRequest.model_validate(TARGET | optional))]
    assert client(service).get("/v1/dataflow").json()["target"]["batchSize"] == 8


def test_a_target_is_idempotent(service: FakeService) -> None:
    """The same generation again returns 200 without a migration, an older one 409; another owner's replaces it."""
    api = client(service)
    assert api.put("/v1/target", json=TARGET).status_code == 202
    again = api.put("/v1/target", json=TARGET)
    assert (again.status_code, again.json()) == (200, {"migration": None})
    older = api.put("/v1/target", json=TARGET | {"generation": 2})
    assert (older.status_code, older.json()["error"]) == (409, "TargetOutdated")
    assert api.put("/v1/target", json=TARGET | {"owner": "other", "generation": 1}).status_code == 202


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"workers": []}, "body.workers"),
        ({"workers": [0] * 2}, "body.workers"),
        ({"workers": list(range(1001))}, "body.workers"),
        ({"workers": [1_000_000]}, "body.workers.0"),
        ({"workers": [-1]}, "body.workers.0"),
        ({"workers": ["1"]}, "body.workers.0"),
        ({"workers": [True]}, "body.workers.0"),
        ({"workers": [1.5]}, "body.workers.0"),
        ({"workers": 3}, "body.workers"),
        ({"owner": "o" * 254}, "body.owner"),
        ({"owner": "a\nb"}, "body.owner"),
        ({"owner": None}, "body.owner"),
        ({"generation": -1}, "body.generation"),
        ({"generation": 2**53}, "body.generation"),
        ({"generation": "3"}, "body.generation"),
        ({"strategy": "Sideways"}, "body.strategy"),
        ({"batchSize": 0}, "body.batchSize"),
        ({"batchSize": 1 << 21}, "body.batchSize"),
        ({"batch_size": 8}, "body.batch_size"),
        ({"preCopy": "yes"}, "body.preCopy"),
        ({"latencyTargetSeconds": 0}, "body.latencyTargetSeconds"),
        ({"latencyTargetSeconds": float("nan")}, "body.latencyTargetSeconds"),
        ({"latencyTargetSeconds": float("inf")}, "body.latencyTargetSeconds"),
        ({"whatever": 1}, "body.whatever"),
        ({"x\ud800" * 100: 1}, "body"),
    ],
)
def test_a_bad_target_is_422_with_its_field(service: FakeService, change: dict[str, Any], where: str) -> None:
    """Wrong types, values out of bounds and unknown fields are rejected by name, and never reach the query."""
    body = json.dumps(TARGET | change)
    answer = client(service).put("/v1/target", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidRequest")
    assert answer.json()["details"][0]["where"].startswith(where)
    assert len(answer.content) < 4096
    assert service.writes == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"\xff"', 400),
        (b'{"generation": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 20_000, 400),
        (b" " * (BODY_BYTES_MAX + 1), 413),
    ],
)
def test_a_body_that_is_no_target_is_a_4xx(service: FakeService, body: bytes, status: int) -> None:
    """Any body returns one error in the API's own form."""
    answer = client(service).put("/v1/target", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert set(answer.json()) == {"type", "title", "status", "detail", "error", "message", "details"}
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["status"], answer.json()["detail"]) == (status, answer.json()["message"])
    assert service.writes == []


def test_the_largest_target_fits(service: FakeService) -> None:
    """A target within every limit is also within the limit of the body."""
    largest = TARGET | {"owner": "o" * 253, "workers": list(range(999_000, 1_000_000))}
    assert client(service).put("/v1/target", json=largest).status_code == 202


@pytest.mark.parametrize(("query", "rollback"), [("", False), ("?rollback=true", True), ("?rollback=false", False)])
def test_cancelling(service: FakeService, query: str, rollback: bool) -> None:
    """A migration is cancelled by its number, and rolled back if requested."""
    answer = client(service).delete(f"/v1/migrations/3{query}")
    assert (answer.status_code, answer.json()["migration"]["id"]) == (202, 3)
    assert service.writes == [("cancel", 3, rollback)]


@pytest.mark.parametrize("body", [None, {}, {"strategy": "Fluid", "batchSize": 8, "preCopy": False}])
def test_rebalancing(service: FakeService, body: dict[str, object] | None) -> None:
    """It returns 202 with its migration; the request may set how bins move, but not where they go."""
    api = client(service)
    answer = api.post("/v1/rebalance", json=body) if body is not None else api.post("/v1/rebalance")
    assert (answer.status_code, answer.json()["migration"]["id"]) == (202, 13)
    assert service.writes == [("rebalance", RebalanceRequest.model_validate(body or {}))]
    assert api.post("/v1/rebalance", json={"workers": [0]}).status_code == 422


def test_draining_and_stopping(service: FakeService) -> None:
    """A drain returns 202 with its migration, or 409 at once; a stop returns 202 and may be repeated."""
    api = client(service)
    assert api.post("/v1/workers/1/drain").json()["migration"]["id"] == 12
    refused = api.post("/v1/workers/0/drain")
    assert (refused.status_code, refused.json()["error"]) == (409, "DrainRefused")
    stopped = [api.post("/v1/stop") for _ in range(2)]
    assert [(each.status_code, each.json()["state"]) for each in stopped] == [(202, "Stopped")] * 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TargetOutdated("x"), 409),
        (TargetOwned("x"), 409),
        (DrainRefused("x"), 409),
        (NoSuchMigration("x"), 404),
        (MigrationRefused("x"), 422),
        (Fenced("x"), 503),
        (StorageUnavailable("x"), 503),
        (NoQueryYet("x"), 503),
        (BinshiftError("x"), 500),
    ],
)
def test_every_error_of_the_query_has_a_status(service: FakeService, error: BinshiftError, status: int) -> None:
    """A binshift error keeps its name and its message; only 503 allows a retry."""
    service.refusal = error
    answer = client(service).put("/v1/target", json=TARGET)
    assert (answer.status_code, answer.json()["error"], answer.json()["message"]) == (status, type(error).__name__, "x")
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_bug_is_a_500_in_the_same_form(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is reported without its text, which might contain anything."""

    def fail(self: FakeService) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(FakeService, "snapshot", fail)
    answer = client(service).get("/v1/dataflow")
    assert (answer.status_code, answer.json()["error"]) == (500, "Internal")
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nowhere", 404),
        ("GET", "/static", 404),
        ("GET", "/docs", 404),
        ("POST", "/v1/dataflow", 405),
        ("GET", "/v1/migrations/99", 404),
        ("GET", "/v1/migrations/x", 422),
        ("GET", "/v1/migrations/" + "9" * 5000, 422),
        ("GET", "/v1/bins?worker=x", 422),
        ("GET", "/v1/bins?limit=0", 422),
        ("GET", "/v1/bins?limit=65537", 422),
        ("POST", "/v1/workers/-1/drain", 422),
        ("DELETE", "/v1/migrations/3?rollback=maybe", 422),
        ("DELETE", "/v1/migrations/3?rolback=true", 422),
        ("GET", "/v1/bins?wroker=1", 422),
        ("DELETE", "/v1/migrations/99", 404),
    ],
)
def test_a_wrong_call_has_the_form_of_every_error(service: FakeService, method: str, path: str, status: int) -> None:
    """Wrong paths, methods and parameters are reported like every other error."""
    answer = client(service).request(method, path)
    assert answer.status_code == status
    assert set(answer.json()) == {"type", "title", "status", "detail", "error", "message", "details"}
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["status"], answer.json()["detail"]) == (status, answer.json()["message"])


def test_a_wrong_method_is_told_the_right_ones(service: FakeService) -> None:
    """The Allow header of a 405 names every method of the path."""
    assert client(service).put("/v1/migrations/3").headers["allow"] == "DELETE, GET"
    assert client(service).get("/v1/stop").headers["allow"] == "POST"


def test_metrics_are_served(service: FakeService) -> None:
    """`/metrics` is in Prometheus's text format, without a token, and in OpenMetrics on request."""
    api = client(service, token=None)
    families = {f.name: f for f in text_string_to_metric_families(api.get("/metrics").text)}
    assert families["binshift_epoch"].samples[0].value == 7
    open_metrics = api.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert open_metrics.text.endswith("# EOF\n")


def test_the_document_has_every_call(service: FakeService) -> None:
    """The OpenAPI document lists each call, and that it needs a token."""
    document = client(service, token=None).get("/openapi.json").json()
    calls = {(m.upper(), path) for path, methods in document["paths"].items() for m in methods}
    of_a_query = {
        *(("GET", f"/{name}") for name in ("dataflow", "workers", "bins", "placement", "epochs", "migrations")),
        *(("GET", "/migrations/{id}"), ("DELETE", "/migrations/{id}"), ("PUT", "/target"), ("GET", "/snapshots")),
        *((method, "/snapshots/{name}") for method in ("GET", "PUT", "DELETE")),
        *(("POST", "/workers/{worker}/drain"), ("POST", "/rebalance"), ("POST", "/stop"), ("PUT", "/settings")),
    }
    assert calls == {
        *zip(("GET",) * 4 + ("POST",), ("/healthz", "/readyz", "/metrics", "/v1/queries", "/v1/activate"), strict=True),
        *((method, f"/v1{query}{path}") for method, path in of_a_query for query in ("", "/queries/{query}")),
    }
    guarded = {p for p, ms in document["paths"].items() for m in ms.values() if "security" in m}
    assert guarded == {path for _, path in calls if path.startswith("/v1/")}
    assert ADMIN not in json.dumps(document)
