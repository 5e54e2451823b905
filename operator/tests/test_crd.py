"""The resource's definition: what the operator takes for granted of it, and its schema on the table of valid and invalid objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from crd_case import Case
from crd_cases import BASE, CREATED, EDITED, FULL, changed

from binshift.hosting.local import init
from binshift_operator import status_codec
from binshift_operator.model import names
from binshift_operator.model.autoscaling import AutoscalingStatus, Scale
from binshift_operator.model.driver_status import DriverStatus
from binshift_operator.model.names import DataflowKey
from binshift_operator.model.reasons import ScalingReason
from binshift_operator.model.snapshot_spec import RestoreFrom
from binshift_operator.model.specification import DEFAULTS, LIVE, MigrationPolicy, parse
from binshift_operator.model.status import (
    Awaiting,
    Condition,
    ConditionType,
    EpochStats,
    HotKey,
    MigrationStatus,
    Moving,
    Phase,
    RolloutStatus,
    SettledTarget,
    Status,
)

ROOT = Path(__file__).resolve().parents[2]
CRD = yaml.safe_load((ROOT / "crds" / "streamingdataflows.yaml").read_text(encoding="utf-8"))
VERSION = CRD["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]["properties"]


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field below a schema, with its path."""
    for name, each in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", each
        yield from fields(each, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


def closed(schema: Any) -> Any:
    """The schema as a server has it that refuses unknown fields."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(each) for name, each in schema.items()}
    if (
        schema.get("type") == "object"
        and "properties" in schema
        and not schema.get("x-kubernetes-preserve-unknown-fields")
    ):
        made["additionalProperties"] = False
    return made


def validate(manifest: dict[str, Any]) -> None:
    """Against the JSON schema alone."""
    schema = closed(SCHEMA)
    schema["properties"]["metadata"] = {"type": "object"}
    jsonschema.validate(manifest, schema, cls=jsonschema.Draft4Validator)


def test_what_binshift_init_writes_is_accepted(tmp_path: Path) -> None:
    """The schema accepts the dataflow, and its claim is in the same file."""
    init.create(tmp_path, "clicks")
    claim, dataflow = yaml.safe_load_all((tmp_path / "dataflow.yaml").read_text(encoding="utf-8"))
    validate(dataflow)
    assert dataflow["spec"]["checkpoint"]["claimName"] == claim["metadata"]["name"] == "clicks"
    assert dataflow["spec"]["application"]["mainFile"] == "/app/program.py"


def test_names_are_those_of_the_operator() -> None:
    """Group, version, kind and plural are the ones in the operator."""
    kinds = CRD["spec"]["names"]
    assert (CRD["spec"]["group"], VERSION["name"]) == (names.GROUP, names.VERSION)
    assert (kinds["kind"], kinds["plural"], kinds["shortNames"]) == (names.KIND, names.PLURAL, ["sdf"])


def test_chart_has_the_same() -> None:
    """The chart's copies of the definitions are the definitions."""
    ours, copies = (sorted(folder.iterdir()) for folder in (ROOT / "crds", ROOT / "charts" / "binshift" / "crds"))
    assert [(each.name, each.read_bytes()) for each in ours] == [(each.name, each.read_bytes()) for each in copies]


def test_every_field_is_described() -> None:
    """`kubectl explain` has a sentence for every field."""
    bare = [path for path, each in fields(SCHEMA) if path not in (".metadata",) and not each.get("description")]
    assert bare == []


def test_scale_subresource() -> None:
    """`kubectl scale` and autoscalers find replicas and selector."""
    assert VERSION["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def test_both_pods_take_the_same() -> None:
    """Every setting of a driver's pod exists for an executor's."""

    def without_prose(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {name: without_prose(each) for name, each in schema.items() if name != "description"}
        return schema

    driver, executor = (SPEC[component]["properties"]["pod"] for component in ("driver", "executor"))
    assert without_prose(driver) == without_prose(executor)


def test_defaults_are_those_of_the_operator() -> None:
    """A value that the server fills in counts as not written, so that it restarts nothing."""
    filled = {name: each["default"] for name, each in SPEC.items() if each.get("default") not in (None, {})}
    for name, value in filled.items():
        assert name in LIVE or DEFAULTS.get(name) == value, name
    for component in ("driver", "executor"):
        parts = {name: each["default"] for name, each in SPEC[component]["properties"].items() if each.get("default")}
        assert parts.items() <= DEFAULTS[component].items()
    migration = {name: each["default"] for name, each in SPEC["migration"]["properties"].items() if "default" in each}
    assert parse(stored({"spec.migration": migration})).migration == MigrationPolicy()


FIRST_DEFAULTS = {
    *(".imagePullPolicy", ".replicas", ".bins", ".suspend", ".restartNonce", ".sparkConf", ".executor.storage"),
    *(f".migration{each}" for each in ("", ".strategy", ".batchSize", ".preCopy")),
    *(f".migration{each}" for each in (".timeout", ".onTimeout")),
    *(f".{component}{each}" for component in ("driver", "executor") for each in ("", ".resources", ".pod")),
}
"""The fields that had a default before an operator was released; they are in `DEFAULTS`, or live."""


def test_a_field_that_is_added_has_no_default() -> None:
    """What the server fills in is an edit to an operator that does not know it: a newer definition would restart every dataflow."""
    filled = {path for path, each in fields(SCHEMA["properties"]["spec"]) if "default" in each}
    assert filled == FIRST_DEFAULTS


def stored(changes: dict[str, Any]) -> dict[str, Any]:
    """An object as the server keeps it."""
    made = changed(changes)
    made["metadata"] |= {"namespace": "default", "uid": "u", "generation": 7}
    return made


@pytest.mark.parametrize("case", [*CREATED, *EDITED], ids=lambda case: case.name)
def test_schema_on_the_table(case: Case) -> None:
    """The schema accepts what is valid, and rejects its share of the rest; CEL rejects the others, on a real server."""
    manifest = changed(case.changes)
    if case.schema:
        with pytest.raises(jsonschema.ValidationError):
            validate(manifest)
    elif not case.refused:
        validate(manifest)


def test_unknown_fields_are_refused() -> None:
    """A misspelt field is no field."""
    with pytest.raises(jsonschema.ValidationError):
        validate(changed({"spec.replica": 2}))


def test_every_field_has_a_valid_example() -> None:
    """The table has an object in which every part of the spec is used."""
    used = changed(FULL)["spec"]
    assert sorted(used) == sorted(SPEC)


SHOWN = MigrationStatus(3, "copying", 7002, "Fluid", 1, 9, 77, 1e9, None, 0.25, 0.5, "why")
FULL_STATUS = Status(
    7, 6, 4, 3, Phase.RESCALING, EpochStats(99, 1e9, 0.31), 12, Awaiting("Migration", 1e9), SettledTarget(7002, 90), 4, 5, SHOWN, (SHOWN,),
    tuple(Condition(kind, True, "Because", "a message", 7, 1e9) for kind in ConditionType), 7,
    {2: 1e9, 4: 1e9, 5: 1e9}, "0123456789abcdef", Moving(7002, 1e9), "0.1.0", RolloutStatus(1, 4),
    AutoscalingStatus(3, 4, ScalingReason.LOAD, "why", 5, ScalingReason.MAX_REPLICAS, Scale(3, 4, 1e9, "how")),
    (HotKey("op0", "alice", 63, 7, 1),),
    RestoreFrom("s3a://backups/a", "a"), DriverStatus("clicks-driver-1", "u1", "clicks-driver-0", 2),
)  # fmt: skip


def test_status_fits_the_schema() -> None:
    """What the operator writes is what the definition describes: nothing would be pruned."""
    status = status_codec.encode(FULL_STATUS, DataflowKey("default", "clicks", "u"))
    validate({**BASE, "status": status})
    known = set(SCHEMA["properties"]["status"]["properties"])
    assert set(status) == known


def test_status_is_read_back() -> None:
    """The next reconciliation reads what this one wrote."""
    assert status_codec.decode(status_codec.encode(FULL_STATUS, DataflowKey("default", "clicks", "u"))) == FULL_STATUS


@pytest.mark.parametrize("found", [{}, {"conditions": "x"}, {"awaiting": {}}, {"phase": "Odd"}, {"epoch": None}])
def test_strange_status_is_none(found: dict[str, Any]) -> None:
    """A status that another client wrote costs what it remembered, and no more."""
    assert status_codec.decode(found).settled_generation == 0
