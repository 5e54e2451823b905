"""Snapshots of a dataflow through the control API, of queries with the real protocol and log underneath."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from awaiting import awaited
from control_fakes import ADMIN, DRAIN, FakeService, client
from control_simulated import World
from prometheus_client.registry import CollectorRegistry
from starlette.testclient import TestClient

from binshift.control.app import control_app
from binshift.control.auth import Tokens
from binshift.control.query_service import QueryService
from binshift.control.service_holder import ServiceHolder
from binshift.errors import NoQueryYet, SnapshotRefused
from binshift.log.storage.folder import Folder
from binshift.log.storage.opening import open_storage
from binshift.log.tools.verification import verify
from binshift.savepoints import layout

FIELDS = {
    *("name", "location", "state", "reason", "epoch", "files", "bytes", "copiedFiles", "copiedBytes"),
    *("startedAt", "finishedAt"),
}


class Program:
    """A program with queries of these names, and a caller of its API."""

    def __init__(self, *names: str) -> None:
        self.worlds = {name: World() for name in names}
        holder = ServiceHolder()
        for name, world in self.worlds.items():
            world.query.name, world.query.id = name, f"id-{name}"
            holder.add(QueryService(world.query))
        app = control_app(holder, Tokens(ADMIN, DRAIN), CollectorRegistry())
        self.client = TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"}, raise_server_exceptions=False)

    def ended(self, path: str) -> dict[str, Any]:
        """What the API answers once the copy has ended."""

        def over(found: Any) -> bool:
            return found["state"] in ("Complete", "Failed")

        found: dict[str, Any] = awaited(lambda: self.client.get(path).json(), over, 30)
        return found


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program("clicks")
    yield made
    made.worlds["clicks"].query.savepoints.close()


def put(program: Program, place: Path, path: str = "/v1/snapshots/monday") -> Any:
    return program.client.put(path, json={"location": str(place)})


def test_a_snapshot_is_made(program: Program, tmp_path: Path) -> None:
    """The first answer is 202, or 200 if it is complete already; in the end it is complete, with all of its fields."""
    answer = put(program, tmp_path)
    assert answer.status_code in (200, 202)
    assert answer.json().keys() == FIELDS
    done = program.ended("/v1/snapshots/monday")
    assert (done["name"], done["location"], done["state"], done["reason"], done["epoch"]) == (
        *("monday", str(tmp_path), "Complete", ""),
        2,
    )
    assert 0 < done["files"] == done["copiedFiles"]
    assert 0 < done["bytes"] == done["copiedBytes"]
    assert done["startedAt"] <= done["finishedAt"]
    assert program.client.get("/v1/snapshots").json() == {"snapshots": [done]}
    assert program.client.get("/v1/queries/clicks/snapshots/monday").json() == done
    again = put(program, tmp_path)
    assert (again.status_code, again.json()) == (200, done)
    assert verify(Folder(open_storage(str(tmp_path)), layout.LOG)) == []


def test_another_location_is_a_conflict(program: Program, tmp_path: Path) -> None:
    """A name has one location."""
    put(program, tmp_path / "a")
    refused = put(program, tmp_path / "b")
    assert (refused.status_code, refused.json()["error"]) == (409, "SnapshotRefused")


def test_an_unknown_name_is_404(program: Program) -> None:
    """And is in no list."""
    missing = program.client.get("/v1/snapshots/monday")
    assert (missing.status_code, missing.json()["error"]) == (404, "NoSuchSnapshot")
    assert program.client.get("/v1/snapshots").json() == {"snapshots": []}


@pytest.mark.parametrize("location", ["/checkpoint", "/checkpoint/x", "hdfs://x/y", "", "a" * 1025, "a\nb", 7, None])
def test_a_bad_location_is_422(program: Program, location: object) -> None:
    """For requests and for removals; nothing is requested then."""
    answer = program.client.put("/v1/snapshots/monday", json={"location": location})
    assert answer.status_code == 422
    assert program.client.request("DELETE", "/v1/snapshots/monday", json={"location": location}).status_code == 422
    assert program.client.get("/v1/snapshots").json() == {"snapshots": []}


@pytest.mark.parametrize("name", ["Monday", "-a", "a-", "a_b", "a" * 254, "ä"])
def test_a_bad_name_is_422(program: Program, tmp_path: Path, name: str) -> None:
    """Names are those of Kubernetes objects."""
    assert put(program, tmp_path, f"/v1/snapshots/{name}").status_code == 422
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["parameter", "body", "known"])
def test_a_snapshot_is_removed(program: Program, tmp_path: Path, how: str) -> None:
    """204, also the second time where the location is given; its files are gone."""
    put(program, tmp_path / "backup")
    program.ended("/v1/snapshots/monday")
    where: dict[str, Any] = {
        "parameter": {"params": {"location": str(tmp_path / "backup")}},
        "body": {"json": {"location": str(tmp_path / "backup")}},
        "known": {},
    }[how]
    removed = program.client.request("DELETE", "/v1/snapshots/monday", **where)
    assert (removed.status_code, removed.content) == (204, b"")
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []
    again = program.client.request("DELETE", "/v1/snapshots/monday", **where)
    assert again.status_code == (422 if how == "known" else 204)
    assert program.client.get("/v1/snapshots").json() == {"snapshots": []}


def test_a_snapshot_of_another_name_is_not_removed(program: Program, tmp_path: Path) -> None:
    """409, and its files stay."""
    put(program, tmp_path)
    program.ended("/v1/snapshots/monday")
    refused = program.client.delete("/v1/snapshots/sunday", params={"location": str(tmp_path)})
    assert (refused.status_code, refused.json()["error"]) == (409, "SnapshotRefused")
    assert (tmp_path / layout.DESCRIPTION).exists()


def test_a_program_without_a_query_takes_no_request(tmp_path: Path) -> None:
    """503, so that the caller repeats the request; nothing is listed."""
    app = control_app(ServiceHolder(), Tokens(ADMIN, DRAIN), CollectorRegistry())
    caller = TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"})
    assert caller.put("/v1/snapshots/monday", json={"location": str(tmp_path)}).status_code == 503
    assert caller.delete("/v1/snapshots/monday", params={"location": str(tmp_path)}).status_code == 503
    assert caller.get("/v1/snapshots").json() == {"snapshots": []}
    assert caller.get("/v1/snapshots/monday").status_code == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_only_the_admin_writes(method: str) -> None:
    """Neither a caller without a token nor one that can drain reaches the query."""
    service = FakeService()
    for token, status in ((None, 401), (DRAIN, 403)):
        answer = client(service, token).request(method, "/v1/snapshots/monday", json={"location": "/x"})
        assert answer.status_code == status
    assert service.writes == []


@pytest.mark.parametrize(("refusal", "status"), [(SnapshotRefused("no"), 409), (NoQueryYet("later"), 503)])
def test_refusals_have_their_status(refusal: Any, status: int) -> None:
    """409 needs a change, 503 another try."""
    service = FakeService(refusal=refusal)
    assert client(service).put("/v1/snapshots/monday", json={"location": "/x"}).status_code == status


def test_a_program_with_two_queries_has_a_folder_for_each(tmp_path: Path) -> None:
    """One request copies both, one answer has both, and one removal removes both."""
    program = Program("clicks", "visits")
    assert put(program, tmp_path).json()["location"] == str(tmp_path)
    done = program.ended("/v1/snapshots/monday")
    parts = [program.client.get(f"/v1/queries/{name}/snapshots/monday").json() for name in program.worlds]
    assert [part["location"] for part in parts] == [f"{tmp_path}/clicks", f"{tmp_path}/visits"]
    assert (done["state"], done["location"], done["epoch"]) == ("Complete", str(tmp_path), 2)
    assert done["files"] == done["copiedFiles"] == sum(part["files"] for part in parts)
    assert program.client.get("/v1/snapshots").json() == {"snapshots": [done]}
    assert all((tmp_path / name / layout.DESCRIPTION).exists() for name in program.worlds)
    assert put(program, tmp_path).status_code == 200
    assert program.client.delete("/v1/snapshots/monday", params={"location": str(tmp_path)}).status_code == 204
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_a_program_is_complete_when_all_its_queries_are(tmp_path: Path) -> None:
    """A query that was not requested keeps the program's pending; one that failed fails it, with its name."""
    program = Program("clicks", "visits")
    put(program, tmp_path / "clicks", "/v1/queries/clicks/snapshots/monday")
    program.ended("/v1/queries/clicks/snapshots/monday")
    waiting = program.client.get("/v1/snapshots/monday").json()
    assert (waiting["state"], waiting["finishedAt"]) == ("Pending", None)
    assert "visits: not requested" in waiting["reason"]
    (tmp_path / "visits").mkdir()
    (tmp_path / "visits" / "notes.txt").write_text("mine")
    put(program, tmp_path)
    failed = program.ended("/v1/snapshots/monday")
    assert failed["state"] == "Failed"
    assert failed["reason"].startswith("visits: ")
    assert "notes.txt" in failed["reason"]
    assert put(program, tmp_path / "x", "/v1/queries/visits/snapshots/alone").status_code == 202
    assert [each["name"] for each in program.client.get("/v1/snapshots").json()["snapshots"]] == ["monday"]
