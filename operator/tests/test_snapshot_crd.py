"""The definition of snapshots: its schema and rules on a table of objects, and that it has all that the operator writes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml
from sim_admission import broken, filled, invalid, pruned
from test_crd import ROOT, fields

from binshift_operator.decide.snapshots import locate
from binshift_operator.model import names
from binshift_operator.model.names import SnapshotKey
from binshift_operator.model.snapshots import Snapshot, SnapshotPhase, SnapshotReason, SnapshotStatus
from binshift_operator.snapshot_codec import encode, parse_snapshot, periodic_manifest, slot_name

CRD = yaml.safe_load((ROOT / "crds" / "streamingdataflowsnapshots.yaml").read_text(encoding="utf-8"))
VERSION = CRD["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]


def problems(spec: dict[str, Any], name: str = "first", before: dict[str, Any] | None = None) -> list[str]:
    """Why the API server would refuse an object with this spec, or an edit of ``before``."""
    made = {
        "metadata": {"name": name},
        "spec": filled(SCHEMA, pruned(SCHEMA["properties"]["spec"], copy.deepcopy(spec))),
    }
    last = None if before is None else {"metadata": {"name": name}, "spec": before}
    return [*invalid(SCHEMA, made, ""), *broken(SCHEMA, made, last, "")]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"dataflow": "clicks"}, "first"),
        ({"dataflow": "clicks", "location": "s3a://bucket/a/"}, "2023"),
        ({"dataflow": "clicks", "location": "/checkpoint/backups/one"}, "a-b"),
        ({"dataflow": "c" * 40}, slot_name("c" * 40, 1.7e9)),
    ],
)
def test_accepted(spec: dict[str, Any], name: str) -> None:
    """A dataflow is enough; a location is a URL or a path; the longest dataflow's periodic snapshots have valid names."""
    assert problems(spec, name) == []
    assert problems(spec, name, spec) == []


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "first"),
        ({"dataflow": ""}, "first"),
        ({"dataflow": "Clicks"}, "first"),
        ({"dataflow": "clicks", "location": "backups"}, "first"),
        ({"dataflow": "clicks", "location": "/a/../b"}, "first"),
        ({"dataflow": "clicks", "location": "s3://bucket"}, "first"),
        ({"dataflow": "clicks", "location": "file:///a"}, "first"),
        ({"dataflow": "clicks"}, "a.b"),
        ({"dataflow": "clicks"}, "a" * 64),
    ],
)
def test_refused(spec: dict[str, Any], name: str) -> None:
    """What is no place of its own, and what is no name of a directory, is refused."""
    assert problems(spec, name) != []


@pytest.mark.parametrize(
    "edit", [{"dataflow": "views"}, {"dataflow": "clicks"}, {"dataflow": "clicks", "location": "/b"}]
)
def test_the_spec_is_fixed(edit: dict[str, Any]) -> None:
    """No field of the spec can be changed, added or removed."""
    before = {"dataflow": "clicks", "location": "/a"}
    assert problems(before, before=before) == []
    assert problems(edit, before=before) == [".spec: the spec of a snapshot is fixed; create another snapshot"]


def test_names_are_those_of_the_operator() -> None:
    """Group, version, kind and plural are the ones in the operator."""
    kinds = CRD["spec"]["names"]
    assert (CRD["spec"]["group"], VERSION["name"]) == (names.GROUP, names.VERSION)
    assert (kinds["kind"], kinds["plural"], kinds["shortNames"]) == (
        names.SNAPSHOT_KIND,
        names.SNAPSHOT_PLURAL,
        ["sdfs"],
    )


def test_every_field_is_described_and_none_has_a_default() -> None:
    """`kubectl explain` has a sentence for every field."""
    found = dict(fields(SCHEMA))
    assert [path for path, each in found.items() if path != ".metadata" and not each.get("description")] == []
    assert [path for path, each in found.items() if "default" in each] == []


FULL = SnapshotStatus(
    SnapshotPhase.COMPLETE, SnapshotReason.COMPLETE, "done", "/checkpoint/x", "clicks", 41, 7, 900, 900, 1e9, 1e9 + 60
)
SNAPSHOT = Snapshot(SnapshotKey("ns", "first", "u"), 1, 1e9 - 5, "clicks")


def test_status_fits_the_schema_and_is_read_back() -> None:
    """What the operator writes is what the definition describes, and the next reconciliation reads it."""
    status = encode(SNAPSHOT, FULL)
    assert set(status) == set(SCHEMA["properties"]["status"]["properties"])
    assert [*invalid(SCHEMA["properties"]["status"], status, "")] == []
    assert pruned(SCHEMA["properties"]["status"], status) == status
    meta = {
        "namespace": "ns",
        "name": "first",
        "uid": "u",
        "creationTimestamp": "2001-09-09T01:46:35Z",
        "generation": 1,
    }
    found = parse_snapshot({"metadata": meta, "spec": {"dataflow": "clicks"}, "status": status})
    # The reason is in the conditions, for users alone.
    assert found == replace(SNAPSHOT, status=replace(FULL, reason=SnapshotStatus().reason))
    columns = {each["jsonPath"].removeprefix(".status.") for each in VERSION["additionalPrinterColumns"]}
    assert {each for each in columns if not each.startswith(".")} <= set(status)


@pytest.mark.parametrize("status", [{"phase": "Odd"}, {"epoch": "x"}, {"startTime": 7}, {"phase": None}])
def test_strange_status_is_none(status: dict[str, Any]) -> None:
    """A status that another client wrote makes the snapshot a new one, and no error."""
    meta = {"namespace": "ns", "name": "first", "uid": "u", "creationTimestamp": "2001-09-09T01:46:35Z"}
    found = parse_snapshot({"metadata": meta, "spec": {"dataflow": "clicks"}, "status": status})
    assert found.status == SnapshotStatus()
    assert locate(found, None).phase is SnapshotPhase.PENDING


def test_periodic_snapshots_are_recognised_by_their_labels() -> None:
    """Only with both labels, of its own dataflow, is a snapshot periodic."""
    made = periodic_manifest(names.DataflowKey("ns", "clicks", "u"), 1.7e9)
    assert problems(made["spec"], made["metadata"]["name"]) == []
    stored = {**made["metadata"], "uid": "u", "creationTimestamp": "2001-09-09T01:46:35Z"}
    assert "ownerReferences" not in stored
    assert parse_snapshot({**made, "metadata": stored}).periodic
    for label in stored["labels"]:
        labels = {name: value for name, value in stored["labels"].items() if name != label}
        assert not parse_snapshot({**made, "metadata": {**stored, "labels": labels}}).periodic
    assert not parse_snapshot({**made, "metadata": stored, "spec": {"dataflow": "views"}}).periodic
