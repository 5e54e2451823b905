"""Events are counted, and a failure to write one is ignored."""

from __future__ import annotations

from sim_server import SimServer

from binshift_operator import events
from binshift_operator.kube import Kube
from binshift_operator.model.names import DataflowKey
from binshift_operator.status import EventRecord

KEY = DataflowKey("ns", "clicks", "u")


def test_events_are_counted() -> None:
    """The same event recorded twice is one object with a count of two."""
    server = SimServer(lambda: 0.0)
    events.record(
        Kube(server),
        KEY,
        [EventRecord("Ready", "yes"), EventRecord("Ready", "yes"), EventRecord("NotReady", "no", warning=True)],
        5.0,
    )
    found = {each["reason"]: each for each in server.listed("Event", "ns")}
    assert (found["Ready"]["count"], found["NotReady"]["count"]) == (2, 1)
    assert found["NotReady"]["type"] == "Warning"
    assert found["Ready"]["involvedObject"]["uid"] == "u"


def test_events_never_fail() -> None:
    """An event that cannot be written stops nothing."""
    server = SimServer(lambda: 0.0)
    server.down = True
    events.record(Kube(server), KEY, [EventRecord("Ready", "yes")], 5.0)
