"""A hostile editor: after any edits, the operator reaches what a fresh dataflow of the last spec would get, or reports an error.

As Acto does it: edits are drawn from the definition's schema, one after the other, and the end is compared with that of a dataflow that
was made with the last spec at once. `test_real_server_random_edits` does the same with a real API server.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from crd_cases import BASE, S3, changed
from hypothesis import given, settings
from hypothesis import strategies as st
from rendering import render_all
from sim_editor import Editor, kept
from spec_edits import LEFT_OUT, PLACES, Edit, Place, edits, valid

from binshift.errors import BinshiftError
from binshift_operator.children import RenderContext
from binshift_operator.children.metadata import Manifest
from binshift_operator.model.driver_settings import MAX_EPOCH_CONF
from binshift_operator.model.names import ANNOTATION_DATAFLOW, ANNOTATION_SPEC, Child
from binshift_operator.model.snapshot_spec import RestoreFrom
from binshift_operator.model.specification import parse

SPECS = {"claim": BASE["spec"], "s3": changed(S3)["spec"]}
FIXED = {("bins",), ("checkpoint", "location"), ("checkpoint", "claimName"), ("checkpoint", "path")}
"""No edit of these is ever accepted."""


@cache
def start_cluster(kind: str) -> Editor:
    """A dataflow that has come up; to be forked."""
    editor = Editor({**SPECS[kind], "replicas": 2})
    assert editor.settle() == ""
    return editor


@cache
def good_editor(kind: str) -> Editor:
    """A dataflow that was created with the good spec at once, for comparison only."""
    editor = Editor({**SPECS[kind], "replicas": 2, "restartNonce": 1})
    assert editor.settle() == ""
    return editor


def assert_as_fresh(editor: Editor, fresh: Editor) -> None:
    """Children, pods and target are what a dataflow has that was made with this spec at once."""
    assert fresh.settle() == ""
    assert editor.children() == fresh.children()
    assert editor.old_pods() == []
    if not editor.found["spec"]["suspend"]:
        assert editor.requested_objects() == fresh.requested_objects()


@given(
    kind=st.sampled_from(sorted(SPECS)),
    acts=st.lists(st.tuples(edits(), st.integers(0, 4)), min_size=6, max_size=20),
    crash=st.integers(0, 30),
)
def test_edits(kind: str, acts: list[tuple[Edit, int]], crash: int) -> None:
    """After any edits, at any time, the dataflow equals a fresh one, or reports an error; a good spec repairs it; and at its end
    nothing of it is left.
    """
    editor = start_cluster(kind).fork()
    editor.cluster.server.crash_after = len(editor.cluster.server.writes) + crash if crash else None
    for edit, ticks in acts:
        before = copy.deepcopy(editor.found)
        if not editor.edit(edit):
            assert editor.found == before
        editor.cluster.run(ticks)
    if editor.settle() == "":
        assert_as_fresh(editor, Editor(editor.found["spec"]))
    assert editor.replace({**SPECS[kind], "replicas": 2, "restartNonce": 1})
    assert editor.settle() == ""
    assert_as_fresh(editor, good_editor(kind))
    editor.delete()
    assert editor.left() == []


def manifests(spec: dict[str, Any]) -> dict[Child, Manifest]:
    """What is rendered of a spec."""
    made = kept(spec)
    made["metadata"] |= {"namespace": "default", "uid": "u", "generation": 1}
    dataflow = parse(made)
    if dataflow.restore_from is not None and dataflow.restore_from.snapshot:
        found = RestoreFrom(location=f"s3a://backups/{dataflow.restore_from.snapshot}")
        dataflow = replace(dataflow, restore_from=found)
    return render_all(dataflow, "keys", RenderContext())


def effect(spec: dict[str, Any]) -> tuple[dict[Child, Manifest], *tuple[object, ...]]:
    """Everything that follows from a spec: its children, their number, and the requests to the runtime.

    Any other ``rebalance.nonce`` is a new target, as any live edit is.
    """
    made = kept(spec)
    made["metadata"] |= {"namespace": "default", "uid": "u", "generation": 1}
    dataflow = parse(made)
    live = spec.get("rebalance"), dataflow.section("executor").get("maxSurge"), dataflow.autoscaling, dataflow.snapshots
    return manifests(spec), dataflow.replicas, dataflow.suspend, dataflow.migration, dataflow.settings, live


@pytest.mark.parametrize(
    "place", [place for place in sorted(PLACES) if "properties" not in PLACES[place]], ids=".".join
)
def test_every_field_has_an_effect(place: Place) -> None:
    """Of each field there is a value that is accepted and changes what comes of the spec; if the pods change, they are replaced."""
    found: list[bool] = []
    bases = [{**spec, "replicas": 2, **more} for spec in SPECS.values() for more in ({}, DEEP)]

    @settings(max_examples=20, database=None)
    @given(st.sampled_from(bases), valid(PLACES[place], place))
    def compare_with_fresh(base: dict[str, Any], value: Any) -> None:
        if found.count(True) < ENOUGH:
            found.append(works(base, Edit(place, value)))

    compare_with_fresh()
    assert any(found) != (place in FIXED)


ENOUGH = 6
"""Values of a field that work."""
DEEP: dict[str, Any] = {
    "driver": {"masterResources": {"requests": {"memory": "384Mi"}, "limits": {"memory": "512Mi"}}},
    "executor": {"storage": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
    "autoscaling": {"mode": "Auto", "maxReplicas": 16},
    "snapshots": {"every": "1h", "keep": 2},
}
"""So that a field can be edited whose neighbours are needed."""


def restarting(conf: str) -> list[str]:
    """The lines of Spark's configuration that a running driver does not take over."""
    return [line for line in conf.splitlines() if not line.startswith(f"{MAX_EPOCH_CONF} ")]


def works(base: dict[str, Any], edit: Edit) -> bool:
    """Whether an edit is accepted and changes anything; pods that would be made otherwise have another hash."""
    editor = Editor(base)
    if not editor.edit(edit):
        return False
    try:
        before, after = effect(base), effect(editor.found["spec"])
    except (BinshiftError, ValueError):
        return False  # it is reported, as `test_edits` sees
    hashes: list[str] = []
    classes: list[str] = []
    for child in (Child.DRIVER, Child.EXECUTORS):
        one, other = (each[0][child]["spec"]["template"] for each in (before, after))
        hashes = [each["metadata"]["annotations"].pop(ANNOTATION_SPEC) for each in (one, other)]
        classes = [each["metadata"]["annotations"].pop(ANNOTATION_DATAFLOW) for each in (one, other)]
        kept = (classes if child is Child.DRIVER else hashes) if one != other else ["", "other"]
        assert kept[0] != kept[1], f"{edit} changes pods, and replaces none"
        assert classes[0] == classes[1] or hashes[0] != hashes[1], f"{edit} changes only a part of the whole"
    conf = [restarting(each[0][Child.SPARK_CONF]["data"]["spark-defaults.conf"]) for each in (before, after)]
    starts_only = edit.place[:2] == ("checkpoint", "restoreFrom")
    restarts = classes[0] != classes[1]
    assert conf[0] == conf[1] or starts_only or restarts, f"{edit} changes Spark's conf, and restarts no driver"
    return before != after or hashes[0] != hashes[1]


def test_left_out_is_left_out() -> None:
    """An edit can take a field away."""
    assert Edit(("driver", "pod", "env"), LEFT_OUT).of({"driver": {"pod": {"env": []}}}) == {"driver": {"pod": {}}}
