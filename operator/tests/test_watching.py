"""What Kopf is used for: to watch, and never to put a finalizer or an annotation on a user's object."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path
from typing import Any

import kopf
import pytest
from kopf._cogs.structs.references import Resource

import binshift_operator
from binshift_operator import watching

SOURCES = sorted(Path(binshift_operator.__file__).parent.rglob("*.py"))
HARMLESS = {"kopf.on.event", "kopf.on.startup", "kopf.on.login"}
"""Kopf's handlers that leave objects alone."""


Names = list[tuple[str, str]]


def woken() -> tuple[kopf.OperatorRegistry, tuple[Names, Names, Names]]:
    """The registry, and whom it wakes: dataflows, schedules, snapshots."""
    places: tuple[Names, Names, Names] = ([], [], [])
    dataflows, schedules, snapshots = (each.append for each in places)
    return watching.registry(watching.Listeners(dataflows, schedules, snapshots)), places


def test_no_handler_needs_a_finalizer() -> None:
    """Nothing is registered with Kopf for which it would block a deletion or keep notes on an object."""
    registry, _ = woken()
    assert registry._watching.get_all_handlers()
    for kind in ("_changing", "_spawning", "_indexing"):
        assert list(getattr(registry, kind).get_all_handlers()) == []
    for handler in registry._watching.get_all_handlers():
        assert not getattr(handler, "requires_finalizer", False)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_source_writes_a_finalizer(path: Path) -> None:
    """No module uses another of Kopf's decorators, or writes the field; what others have set is read where pods are parsed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {name for name in used if name.startswith("kopf.on.")} <= HARMLESS
    assert not {name for name in used if name in ("kopf.timer", "kopf.daemon", "kopf.index", "kopf.adopt")}
    reads = ast.unparse(tree).count("meta.get('finalizers')") if path.stem == "pod_state" else 0
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == "finalizers"]
    assert len(named) == reads


def test_events_wake_their_dataflow() -> None:
    """A dataflow is woken by an edit and by its end, not by its own status; an event of a pod wakes the one in its label."""
    registry, (places, schedules, _) = woken()
    handlers = {str(handler.id): handler.fn for handler in registry._watching.get_all_handlers()}
    assert set(handlers) == {"dataflow", "pods", "snapshot", "statefulsets"}

    async def send_events() -> None:
        for generation, kind in ((1, None), (1, "MODIFIED"), (2, "MODIFIED"), (2, "DELETED"), (2, "ADDED")):
            meta = {"generation": generation}
            body = {"spec": {"snapshots": {"every": "1h", "keep": 1}} if generation == 2 else {}}
            given = {"namespace": "ns", "name": "clicks", "uid": "u", "meta": meta, "type": kind, "body": body}
            await call(handlers["dataflow"], **given, labels={})
        await call(handlers["pods"], namespace="ns", name="x", labels={"app.kubernetes.io/instance": "views"})
        await call(handlers["pods"], namespace="ns", name="x", labels={})

    asyncio.run(send_events())
    assert places == [("ns", "clicks")] * 4 + [("ns", "views")]
    assert schedules == [("ns", "clicks")] * 3


def test_events_wake_a_snapshot() -> None:
    """A snapshot is woken when it is new, or found by a watch that begins, unless it has ended; not by its own status."""
    registry, (dataflows, _, snapshots) = woken()
    handlers = {str(handler.id): handler.fn for handler in registry._watching.get_all_handlers()}
    phases: tuple[dict[str, str], ...] = ({}, {"phase": "Copying"}, {"phase": "Complete"}, {"phase": "Failed"})

    async def send_events() -> None:
        for kind in ("ADDED", None, "MODIFIED", "DELETED"):
            for status in phases:
                await call(handlers["snapshot"], namespace="ns", name="first", type=kind, body={"status": status})

    asyncio.run(send_events())
    assert snapshots == [("ns", "first")] * 4
    assert dataflows == []


def test_nodes_are_watched_on_request() -> None:
    """Only with a callback, as a watch without the right would end the process; it needs no finalizer, and means no other kind of node."""
    handlers = watching.registry(watching.Listeners(lambda key: None, node=lambda name, taints: None))
    (selector,) = (each.selector for each in handlers._watching.get_all_handlers() if each.id == "nodes")
    assert selector is not None
    assert selector.check(Resource("", "v1", "nodes", kind="Node"))
    assert not selector.check(Resource("metrics.k8s.io", "v1beta1", "nodes", kind="NodeMetrics"))
    assert "nodes" not in {str(each.id) for each in woken()[0]._watching.get_all_handlers()}
    assert "snapshot" not in {str(each.id) for each in handlers._watching.get_all_handlers()}
    for kind in ("_changing", "_spawning", "_indexing"):
        assert list(getattr(handlers, kind).get_all_handlers()) == []


async def call(function: Any, **arguments: Any) -> None:
    """As Kopf does, with more arguments than are used."""
    await function(**arguments, patch=None, logger=None)


def test_only_our_own_children_are_listed() -> None:
    """The API server is queried for the operator's children and for all dataflows: other pods never reach the operator."""
    settings = kopf.OperatorSettings()
    asyncio.run(watching.configure(settings=settings))
    selectors = {
        plural: settings.watching.label_selectors.collect(Resource(group, version, plural, kind=kind))
        for group, version, plural, kind in (
            ("", "v1", "pods", "Pod"),
            ("apps", "v1", "statefulsets", "StatefulSet"),
            ("binshift.dev", "v1alpha1", "streamingdataflows", "StreamingDataflow"),
        )
    }
    ours = ["app.kubernetes.io/managed-by=binshift-operator"]
    assert selectors == {"pods": ours, "statefulsets": ours, "streamingdataflows": []}


def test_settings() -> None:
    """Watches and requests have time limits, and Kopf's own notes would have our prefix."""
    settings = kopf.OperatorSettings()
    asyncio.run(watching.configure(settings=settings))
    assert settings.posting.enabled is False
    assert settings.scanning.disabled is True
    assert settings.peering.standalone is True
    for seconds in (
        settings.watching.server_timeout,
        settings.watching.client_timeout,
        settings.networking.request_timeout,
    ):
        assert seconds is not None
        assert seconds > 0
    assert settings.queueing.idle_timeout <= 1
    assert settings.persistence.finalizer.startswith(watching.PREFIX)
