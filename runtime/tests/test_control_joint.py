"""A migration of several queries has one number, which identifies it whatever happens to its parts."""

from __future__ import annotations

from typing import Any

import pytest
from control_fakes import a_migration
from control_several import TARGET, Both, Named

from binshift.control.models import State
from binshift.errors import MigrationRefused


@pytest.fixture
def both() -> Both:
    """See `Both`."""
    return Both()


def test_a_part_that_its_query_has_forgotten_spoils_no_answer(both: Both) -> None:
    """A forgotten part counts as last seen, or not at all; without any part the migration does not exist."""
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
    """It is not found by its number."""
    path = f"/v1/migrations/{both.client.put('/v1/target', json=TARGET).json()['migration']['id']}"
    both.one.forgotten = both.other.forgotten = {11}
    assert (both.client.get(path).status_code, both.client.delete(path).status_code) == (404, 404)
    assert both.client.get("/v1/migrations").json()["migrations"] == []
    assert both.client.get("/v1/dataflow").json()["migration"] is None


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "target"), ("POST", "rebalance"), ("POST", "workers/1/drain")], ids=str
)
def test_a_refusal_of_one_query_stops_no_other(both: Both, method: str, path: str) -> None:
    """The migrations of the other queries have a number to cancel them by; only a request that all reject is rejected."""
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


def test_only_the_shown_migration_is_read(both: Both) -> None:
    """It is the newest one in progress, or otherwise the newest."""

    def shown() -> tuple[int, str, int]:
        both.one.requests = 0
        found = both.client.get("/v1/dataflow").json()["migration"]
        return found["id"], found["phase"], both.one.requests

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


def test_what_was_begun_together_is_known_whichever_queries_come_and_go(both: Both) -> None:
    """Its number is no other's: not after another query has started, not while one is left, not in the next driver."""

    def begun(program: Both, generation: int) -> str:
        found = program.client.put("/v1/target", json=TARGET | {"generation": generation})
        return f"/v1/migrations/{found.json()['migration']['id']}"

    first = begun(both, 7)
    both.holder.add(Named(name="third"))
    second = begun(both, 8)
    assert first != second
    assert [both.client.get(each).json()["phase"] for each in (first, second)] == ["copying", "copying"]
    assert both.client.delete(first).status_code == 202
    assert [each.writes[-1][0] for each in (both.one, both.other)] == ["cancel", "cancel"]
    both.other.phase = "settled"
    for each in both.holder.each():
        assert isinstance(each, Named)
        each.state = State.STOPPED
    both.holder.add(Named(name="next"))
    assert [both.client.get(each).json()["phase"] for each in (first, second)] == ["settled", "settled"]
    assert both.client.delete(second).status_code == 202
    again = Both()
    again.one.term, again.other.term = 2, 1
    assert begun(again, 9) not in (first, second)
    assert again.client.get(first).status_code == 404
