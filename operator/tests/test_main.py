"""The operator's process as a whole: it begins and ends, holds its Lease meanwhile, and needs no name for its user."""

from __future__ import annotations

import getpass
import socket
import threading
from typing import Any

import kopf
import pytest
from kopf._core.engines import peering
from sim_server import SimServer

from binshift_operator import main as module

LEASE = ("Lease", "system", "binshift-operator")


@pytest.mark.parametrize("may_watch_nodes", [True, False])
def test_it_holds_its_lease_and_gives_it_back(monkeypatch: pytest.MonkeyPatch, may_watch_nodes: bool) -> None:
    """While it runs it holds the Lease; after its end, no process does. It watches with its pod's name, reads no user name, and watches
    nodes if it may.
    """
    server = SimServer(lambda: 0.0)
    server.unreadable = set() if may_watch_nodes else {"/nodes"}
    seen = run(monkeypatch, server)
    assert (seen["identity"], seen["holder"]) == ("operator-1", "operator-1")
    assert "holderIdentity" not in server.objects[LEASE]["spec"]
    assert ("nodes" in watched_kinds(seen)) is may_watch_nodes


@pytest.mark.parametrize(
    ("unreadable", "namespaces", "served"),
    [
        ("/streamingdataflowsnapshots", "", False),
        ("/b/streamingdataflowsnapshots", "a,b", False),
        ("/c/streamingdataflowsnapshots", "a,b", True),
    ],
)
def test_without_the_right_to_snapshots(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, unreadable: str, namespaces: str, served: bool
) -> None:
    """With roles of an earlier release, snapshots are neither watched nor listed, one line reports it, and dataflows are served."""
    server = SimServer(lambda: 0.0)
    server.unreadable = {unreadable}
    monkeypatch.setattr(module, "configure_logging", lambda level: None)
    seen = run(monkeypatch, server, BINSHIFT_NAMESPACES=namespaces)
    assert watched_kinds(seen) == {"dataflow", "pods", "statefulsets", "nodes"} | ({"snapshot"} if served else set())
    assert "dataflow-list" in seen["threads"]
    assert {"snapshot-list", "schedule-list"} & seen["threads"] == (
        {"snapshot-list", "schedule-list"} if served else set()
    )
    assert len([each for each in caplog.records if "snapshots" in each.getMessage()]) == (0 if served else 1)


def run(monkeypatch: pytest.MonkeyPatch, server: SimServer, **environment: str) -> dict[str, Any]:
    """Run the process until it holds its Lease: what Kopf was given, the Lease's holder, and the threads."""
    seen = dict[str, Any]()
    held = threading.Event()
    server.changed = lambda kind: held.set() if kind == "Lease" else None
    monkeypatch.setattr(module, "ServerConnection", lambda: server)
    monkeypatch.setattr(getpass, "getuser", _nobody)

    def watched(**given: Any) -> None:
        assert held.wait(30)
        threads = {each.name for each in threading.enumerate()}
        seen.update(given, holder=server.objects[LEASE]["spec"].get("holderIdentity"), threads=threads)

    monkeypatch.setattr(kopf, "run", watched)
    environment |= {
        "BINSHIFT_NAMESPACE": "system",
        "BINSHIFT_POD": "operator-1",
        "BINSHIFT_LEASE": "binshift-operator",
        "BINSHIFT_HTTP_PORT": str(_free_port()),
        "BINSHIFT_SELECTOR": "team=a",
    }
    assert module.main(environment) == 0
    return seen


def watched_kinds(seen: dict[str, Any]) -> set[str]:
    """The kinds that Kopf watches."""
    return {str(each.id) for each in seen["registry"]._watching.get_all_handlers()}


def test_kopf_would_require_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the name is given: without one Kopf asks who the user is."""
    monkeypatch.setattr(getpass, "getuser", _nobody)
    monkeypatch.delenv("POD_ID", raising=False)
    with pytest.raises(KeyError):
        peering.detect_own_id(manual=False)


def _free_port() -> int:
    with socket.create_server(("", 0)) as found:
        return int(found.getsockname()[1])


def _nobody() -> str:
    raise KeyError("getpwuid(): uid not found: 1234567")
