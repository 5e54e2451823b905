"""The versions of the resource's definition: they can be served without a conversion, and no pod depends on them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from test_children_rendering import all_of
from test_crd import CRD

from binshift_operator.model import names
from binshift_operator.model.names import Child


def problems(crd: dict[str, Any]) -> list[str]:
    """What the API server could not serve without a conversion of its own, or the operator could not use."""
    spec, found = crd["spec"], list[str]()
    served = [each for each in spec["versions"] if each["served"]]
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        found.append("conversion")
    if [each["storage"] for each in spec["versions"]].count(True) != 1:
        found.append("stored")
    if any(each["schema"] != served[0]["schema"] for each in served):
        found.append("schema")
    if names.VERSION not in [each["name"] for each in served]:
        found.append("operator")
    return found


def test_versions_need_no_conversion() -> None:
    """One version is stored, all served ones have one schema, and the operator's is among them."""
    assert problems(CRD) == []


@pytest.mark.parametrize(
    ("difference", "problem"),
    [
        ({"storage": True}, ["stored"]),
        ({"served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}, ["schema"]),
        ({"served": False, "schema": {}}, []),
        ({}, []),
    ],
)
def test_a_second_version(difference: dict[str, Any], problem: list[str]) -> None:
    """Another version is accepted if it has the same schema or is no longer served, and is not stored as well."""
    crd = copy.deepcopy(CRD)
    second = copy.deepcopy(crd["spec"]["versions"][0]) | {"name": "v1beta1", "storage": False}
    crd["spec"]["versions"].append(second | difference)
    assert problems(crd) == problem


def test_a_webhook_and_another_version_of_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversion webhook, and an operator whose version is not served, are found."""
    crd = copy.deepcopy(CRD)
    crd["spec"]["conversion"] = {"strategy": "Webhook"}
    monkeypatch.setattr(names, "VERSION", "v1beta1")
    assert problems(crd) == ["conversion", "operator"]


def test_another_version_replaces_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that uses another version renders other owner references, and the same pod templates."""
    before = all_of()
    monkeypatch.setattr(names, "API_VERSION", f"{names.GROUP}/v1beta1")
    after = all_of()
    for child in (Child.DRIVER, Child.EXECUTORS):
        owners = [each[child]["metadata"]["ownerReferences"][0]["apiVersion"] for each in (before, after)]
        assert owners == ["binshift.dev/v1alpha1", "binshift.dev/v1beta1"]
        assert before[child]["spec"] == after[child]["spec"]
