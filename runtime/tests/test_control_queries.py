"""Several queries behind one API: each by its name, all of them without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from control_fakes import ADMIN, FakeSurface, a_migration
from prometheus_client.registry import CollectorRegistry
from starlette.testclient import TestClient

from binshift.control.app import control_app
from binshift.control.joint import JOINT_FIRST
from binshift.control.models import Dataflow, Migration, State, TargetRequest, WorkerLoad
from binshift.control.slot import Slot
from binshift.control.tokens import Tokens
from binshift.errors import MigrationRefused, NoSuchMigration
from binshift.metrics import Observed
from binshift.metrics.program import ProgramMetrics
from binshift.model import Epoch, Worker
from binshift.protocol.migrations import MIGRATIONS_A_TERM

TARGET = {"owner": "uid", "generation": 7, "workers": [0, 1, 2]}


@dataclass
class Named(FakeSurface):
    """One query of several.

    Attributes:
        name: its name.
        state: what it does.
        phase: of its migrations.
        phases: of those that differ, by number.
        asked: how often a migration was asked for by its number.
        troubles: background rounds of worker 1 that failed in a row, and why the newest did.
        term: of its driver.
        forgotten: migrations of which it knows nothing any more.
    """

    name: str = ""
    state: State = State.RUNNING
    phase: str = "copying"
    phases: dict[int, str] = field(default_factory=dict)
    asked: int = 0
    troubles: tuple[int, str] = (0, "")
    term: int = 1
    forgotten: set[int] = field(default_factory=set)

    def snapshot(self) -> Dataflow:
        """See `FakeSurface`."""
        return super().snapshot().model_copy(update={"name": self.name, "id": f"id-{self.name}", "state": self.state})

    def workers(self) -> Sequence[WorkerLoad]:
        """See `FakeSurface`."""
        failures, error = self.troubles
        well, troubled = super().workers()
        return [well, troubled.model_copy(update={"background_failures": failures, "background_error": error})]

    def migration(self, number: int) -> Migration:
        """See `FakeSurface`."""
        self.asked += 1
        if number in self.forgotten:
            raise NoSuchMigration(f"there is no migration {number}")
        return a_migration(number).model_copy(update={"phase": self.phases.get(number, self.phase)})

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """As `FakeSurface`, by the number that a query gives."""
        found = super().put_target(wanted)
        first = (self.term - 1) * MIGRATIONS_A_TERM
        return None if found is None else found.model_copy(update={"id": first + found.id})

    def observed(self) -> Observed:
        """See `FakeSurface`."""
        return Observed(epoch=Epoch(len(self.name)))


class Both:
    """A program with two queries, and a caller of its API."""

    def __init__(self) -> None:
        self.one, self.other = Named(name="one"), Named(name="other")
        self.slot = Slot()
        self.slot.add(self.one)
        self.slot.add(self.other)
        self.registry = CollectorRegistry()
        ProgramMetrics(self.registry, self.slot.named)
        app = control_app(self.slot, Tokens(ADMIN, None), self.registry)
        self.client = TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"}, raise_server_exceptions=False)


@pytest.fixture
def both() -> Both:
    """See `Both`."""
    return Both()


def test_queries_are_listed_and_addressed_by_name_or_id(both: Both) -> None:
    """A change through a query's own path is that query's alone; a name that nobody has is not found."""
    listed = both.client.get("/v1/queries").json()["queries"]
    assert [(each["name"], each["state"]) for each in listed] == [("one", "Running"), ("other", "Running")]
    assert both.client.get("/v1/queries/id-other/dataflow").json()["name"] == "other"
    assert both.client.put("/v1/queries/other/target", json=TARGET).status_code == 202
    assert (len(both.one.writes), len(both.other.writes)) == (0, 1)
    missing = both.client.get("/v1/queries/third/dataflow")
    assert (missing.status_code, missing.json()["error"]) == (404, "NoSuchQuery")
    assert "one, other" in missing.json()["message"]


def test_a_target_without_a_query_is_that_of_all(both: Both) -> None:
    """It goes to each, has one number, and is settled once it is everywhere; until all have it the program has no target."""
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


def test_a_part_that_its_query_has_forgotten_spoils_no_answer(both: Both) -> None:
    """It counts as it was seen to end, or not at all; without any part there is no such migration."""
    path = f"/v1/migrations/{both.client.put('/v1/target', json=TARGET).json()['migration']['id']}"
    part = a_migration(0).bins_total or 0
    both.one.forgotten = {11}
    assert (both.client.get(path).json()["phase"], both.client.get(path).json()["binsTotal"]) == ("copying", part)
    assert both.client.get("/v1/dataflow").json()["migration"]["binsTotal"] == part
    assert both.client.delete(path).status_code == 202
    both.other.phase = "failed"
    assert both.client.get(path).json()["phase"] == "failed"
    both.other.forgotten = {11}
    assert [each["phase"] for each in both.client.get("/v1/migrations").json()["migrations"]] == ["failed"]
    both.client.put("/v1/target", json=TARGET | {"generation": 8})
    assert both.client.get("/v1/dataflow").json()["migration"]["phase"] == "failed"
    assert [each.status_code for each in (both.client.get(path), both.client.post("/v1/stop"))] == [200, 202]


def test_a_migration_of_which_nothing_is_known_is_not_listed(both: Both) -> None:
    """By its number it is not found."""
    path = f"/v1/migrations/{both.client.put('/v1/target', json=TARGET).json()['migration']['id']}"
    both.one.forgotten = both.other.forgotten = {11}
    assert (both.client.get(path).status_code, both.client.delete(path).status_code) == (404, 404)
    assert both.client.get("/v1/migrations").json()["migrations"] == []
    assert both.client.get("/v1/dataflow").json()["migration"] is None


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "target"), ("POST", "rebalance"), ("POST", "workers/1/drain")], ids=str
)
def test_a_refusal_of_one_query_stops_no_other(both: Both, method: str, path: str) -> None:
    """What the others begin has a number by which it is cancelled; nothing is refused but what nobody does."""
    body: dict[str, Any] = {"json": TARGET} if method == "PUT" else {}
    for refusing, taking in ((both.one, both.other), (both.other, both.one)):
        refusing.refusal, taking.refusal = MigrationRefused("no load of a bin has been measured yet"), None
        accepted = both.client.request(method, f"/v1/{path}", **body)
        assert accepted.status_code == 202
        number = accepted.json()["migration"]["id"]
        assert both.client.delete(f"/v1/migrations/{number}").status_code == 202
        assert taking.writes[-1][0] == "cancel"
        body = {"json": TARGET | {"generation": 8}} if method == "PUT" else {}
    both.one.refusal = both.other.refusal
    refused = both.client.request(method, f"/v1/{path}", **body)
    assert (refused.status_code, refused.json()["error"]) == (422, "MigrationRefused")


def test_of_many_migrations_only_the_one_that_is_shown_is_asked_for(both: Both) -> None:
    """It is the newest under way, else the newest."""

    def shown() -> tuple[int, str, int]:
        both.one.asked = 0
        found = both.client.get("/v1/dataflow").json()["migration"]
        return found["id"], found["phase"], both.one.asked

    numbers = []
    for term in range(1, 31):
        both.one.term = both.other.term = term
        accepted = both.client.put("/v1/target", json=TARGET | {"generation": 7 + term})
        numbers.append(accepted.json()["migration"]["id"])
    assert shown() == (numbers[-1], "copying", 1)
    both.one.phase = both.other.phase = "settled"
    both.other.phases[11] = "flipping"
    assert shown()[:2] == (numbers[0], "flipping")
    assert shown() == (numbers[0], "flipping", 2)
    both.other.phases.clear()
    assert shown()[:2] == (numbers[-1], "settled")
    assert shown() == (numbers[-1], "settled", 1)


def test_what_has_no_meaning_for_all_is_refused(both: Both) -> None:
    """Bins and migrations of a query have numbers that others have, too."""
    refused = both.client.get("/v1/bins")
    assert (refused.status_code, refused.json()["error"]) == (404, "NoSuchQuery")
    assert "/v1/queries/NAME/bins" in refused.json()["message"]
    assert both.client.get("/v1/migrations/3").status_code == 404
    assert both.client.get("/v1/queries/one/migrations/3").status_code == 200


def test_a_worker_in_trouble_with_one_query_is_in_trouble(both: Both) -> None:
    """As often in a row as with the worst of them; bins and the like are sums."""
    for both.one.troubles, both.other.troubles in (((0, ""), (3, "disk")), ((3, "disk"), (1, "net"))):
        well, troubled = both.client.get("/v1/workers").json()["workers"]
        assert (well["backgroundFailures"], well["backgroundError"]) == (0, "")
        assert (troubled["backgroundFailures"], troubled["backgroundError"]) == (3, "disk")
        assert troubled["keys"] == 10


def test_a_drain_and_a_stop_without_a_query_are_for_all(both: Both) -> None:
    """A pod that goes has bins of each."""
    assert both.client.post("/v1/workers/1/drain").status_code == 202
    assert both.client.post("/v1/stop").status_code == 202
    assert [each.writes[0] for each in (both.one, both.other)] == [("drain", Worker(1))] * 2
    assert both.one.stopped
    assert both.other.stopped


def test_a_query_that_ended_leaves_the_others_alone(both: Both) -> None:
    """The program runs as long as one does, and says what became of the other; its successor takes its place."""
    both.one.state = State.FAILED
    seen = both.client.get("/v1/dataflow").json()
    assert seen["state"] == "Running"
    assert seen["reason"].startswith("one: Failed")
    both.slot.add(Named(name="one"))
    assert [each["state"] for each in both.client.get("/v1/queries").json()["queries"]] == ["Running", "Running"]
    both.other.state = State.STOPPED
    for each in both.slot.each():
        assert isinstance(each, Named)
        each.state = State.STOPPED
    assert both.client.get("/v1/dataflow").json()["state"] == "Stopped"
    both.slot.add(Named(name="next"))
    assert [each["name"] for each in both.client.get("/v1/queries").json()["queries"]] == ["next"]


def test_what_was_begun_together_is_known_whichever_queries_come_and_go(both: Both) -> None:
    """Its number is no other's: not after another query has started, not while one is left, not in the next driver."""

    def begun(program: Both, generation: int) -> str:
        found = program.client.put("/v1/target", json=TARGET | {"generation": generation})
        return f"/v1/migrations/{found.json()['migration']['id']}"

    first = begun(both, 7)
    both.slot.add(Named(name="third"))
    second = begun(both, 8)
    assert first != second
    assert [both.client.get(each).json()["phase"] for each in (first, second)] == ["copying", "copying"]
    assert both.client.delete(first).status_code == 202
    assert [each.writes[-1][0] for each in (both.one, both.other)] == ["cancel", "cancel"]
    both.other.phase = "settled"
    for each in both.slot.each():
        assert isinstance(each, Named)
        each.state = State.STOPPED
    both.slot.add(Named(name="next"))
    assert [both.client.get(each).json()["phase"] for each in (first, second)] == ["settled", "settled"]
    assert both.client.delete(second).status_code == 202
    again = Both()
    again.one.term, again.other.term = 2, 1
    assert begun(again, 9) not in (first, second)
    assert again.client.get(first).status_code == 404


def test_metrics_of_several_queries_have_their_names(both: Both) -> None:
    """With one query there is no such label, so that nothing changes for whoever has one."""
    lines = both.client.get("/metrics").text.splitlines()
    assert {'binshift_epoch{query="one"} 3.0', 'binshift_epoch{query="other"} 5.0'} <= set(lines)
    assert sum(line.startswith("# TYPE binshift_epoch ") for line in lines) == 1
    alone, registry = Slot(Named(name="one")), CollectorRegistry()
    ProgramMetrics(registry, alone.named)
    text = TestClient(control_app(alone, Tokens(ADMIN, None), registry)).get("/metrics").text
    assert "binshift_epoch 3.0" in text.splitlines()
