"""Several queries behind one API: each by its name, and all of them without a name."""

from __future__ import annotations

import pytest
from control_fakes import ADMIN, a_migration
from control_several import TARGET, Both, Named
from prometheus_client.registry import CollectorRegistry
from starlette.testclient import TestClient

from binshift.control.app import control_app
from binshift.control.auth import Tokens
from binshift.control.joint import JOINT_FIRST
from binshift.control.models import State
from binshift.control.program_metrics import ProgramMetrics
from binshift.control.service_holder import ServiceHolder
from binshift.model import Worker


@pytest.fixture
def both() -> Both:
    """See `Both`."""
    return Both()


def test_queries_are_listed_and_addressed_by_name_or_id(both: Both) -> None:
    """A change through a query's own path affects only that query; an unknown name is not found."""
    listed = both.client.get("/v1/queries").json()["queries"]
    assert [(each["name"], each["state"]) for each in listed] == [("one", "Running"), ("other", "Running")]
    assert both.client.get("/v1/queries/id-other/dataflow").json()["name"] == "other"
    assert both.client.put("/v1/queries/other/target", json=TARGET).status_code == 202
    assert (len(both.one.writes), len(both.other.writes)) == (0, 1)
    missing = both.client.get("/v1/queries/third/dataflow")
    assert (missing.status_code, missing.json()["error"]) == (404, "NoSuchQuery")
    assert "one, other" in missing.json()["message"]


def test_a_target_without_a_query_is_that_of_all(both: Both) -> None:
    """It goes to each query, has one number, and is settled once all are; until all have it the program has no target."""
    assert both.client.get("/v1/dataflow").json()["target"] is None
    both.client.put("/v1/queries/other/target", json=TARGET)
    assert both.client.get("/v1/dataflow").json()["target"] is None
    accepted = both.client.put("/v1/target", json=TARGET | {"generation": 8})
    assert accepted.status_code == 202
    migration = accepted.json()["migration"]
    assert migration["id"] >= JOINT_FIRST
    seen = both.client.get("/v1/dataflow").json()
    assert (seen["state"], seen["name"], seen["target"]["generation"]) == ("Running", None, 8)
    both.one.phase = "settled"
    path = f"/v1/migrations/{migration['id']}"
    assert both.client.get(path).json()["phase"] == "copying"
    both.other.phase = "settled"
    assert both.client.get(path).json()["phase"] == "settled"
    both.other.phase = "failed"
    assert both.client.get(path).json()["phase"] == "failed"
    assert both.client.get(path).json()["binsTotal"] == 2 * (a_migration(0).bins_total or 0)


def test_what_has_no_meaning_for_all_is_refused(both: Both) -> None:
    """Bins and migrations of a query have numbers that occur in other queries, too."""
    refused = both.client.get("/v1/bins")
    assert (refused.status_code, refused.json()["error"]) == (404, "NoSuchQuery")
    assert "/v1/queries/NAME/bins" in refused.json()["message"]
    assert both.client.get("/v1/migrations/3").status_code == 404
    assert both.client.get("/v1/queries/one/migrations/3").status_code == 200


def test_a_worker_in_trouble_with_one_query_is_in_trouble(both: Both) -> None:
    """Its consecutive failures are those of the worst query; bins and similar values are sums."""
    for both.one.troubles, both.other.troubles in (((0, ""), (3, "disk")), ((3, "disk"), (1, "net"))):
        well, troubled = both.client.get("/v1/workers").json()["workers"]
        assert (well["backgroundFailures"], well["backgroundError"]) == (0, "")
        assert (troubled["backgroundFailures"], troubled["backgroundError"]) == (3, "disk")
        assert troubled["keys"] == 10


def test_a_drain_and_a_stop_without_a_query_are_for_all(both: Both) -> None:
    """A pod that is removed has bins of each query."""
    assert both.client.post("/v1/workers/1/drain").status_code == 202
    assert both.client.post("/v1/stop").status_code == 202
    assert [each.writes[0] for each in (both.one, both.other)] == [("drain", Worker(1))] * 2
    assert both.one.stopped
    assert both.other.stopped


def test_a_query_that_ended_leaves_the_others_alone(both: Both) -> None:
    """The program runs as long as one query does, and reports the end of the other; its successor takes its place."""
    both.one.state = State.FAILED
    seen = both.client.get("/v1/dataflow").json()
    assert seen["state"] == "Running"
    assert seen["reason"].startswith("one: Failed")
    both.holder.add(Named(name="one"))
    assert [each["state"] for each in both.client.get("/v1/queries").json()["queries"]] == ["Running", "Running"]
    both.other.state = State.STOPPED
    for each in both.holder.each():
        assert isinstance(each, Named)
        each.state = State.STOPPED
    assert both.client.get("/v1/dataflow").json()["state"] == "Stopped"
    both.holder.add(Named(name="next"))
    assert [each["name"] for each in both.client.get("/v1/queries").json()["queries"]] == ["next"]


def test_a_query_that_stands_still_is_not_hidden_by_one_that_goes_on(both: Both) -> None:
    """The program's progress is that of its slowest query; a query that has ended always counts as stalled."""

    def newest() -> tuple[int, str | None]:
        seen = both.client.get("/v1/dataflow").json()
        return seen["epoch"], seen["committedAt"]

    both.one.epoch, both.one.committed_at = 90, 100.0
    both.other.epoch, both.other.committed_at = 5, 160.0
    assert newest() == (5, "1970-01-01T00:01:40Z")
    both.other.committed_at = None
    assert newest() == (5, None)
    both.other.state = State.FINISHED
    assert newest() == (90, "1970-01-01T00:01:40Z")


def test_metrics_of_several_queries_have_their_names(both: Both) -> None:
    """With one query there is no such label, so that its metrics do not change."""
    lines = both.client.get("/metrics").text.splitlines()
    assert {'binshift_epoch{query="one"} 3.0', 'binshift_epoch{query="other"} 5.0'} <= set(lines)
    assert sum(line.startswith("# TYPE binshift_epoch ") for line in lines) == 1
    alone, registry = ServiceHolder(Named(name="one")), CollectorRegistry()
    ProgramMetrics(registry, alone.named)
    text = TestClient(control_app(alone, Tokens(ADMIN, None), registry)).get("/metrics").text
    assert "binshift_epoch 3.0" in text.splitlines()
