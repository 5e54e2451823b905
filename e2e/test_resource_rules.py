"""The resource's own rules, as a real API server applies them to valid and invalid objects and edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crd_cases import CREATED, EDITED, Case, changed

from kube import Refused, until
from stage import Stage

ACCEPTED = ""
WRITTEN_MEANWHILE = "the object has been modified"


def said(scene: Stage, verb: str, changes: dict[str, Any]) -> str:
    """What the API server has against an object; nothing is kept of it."""
    try:
        scene.kube(verb, "--dry-run=server", "--validate=strict", "--filename", "-", stdin=json.dumps(changed(changes)))
    except Refused as refusal:
        return str(refusal)
    return ACCEPTED


def said_to_replacing(scene: Stage, changes: dict[str, Any]) -> str:
    """What the API server has against an edit. kubectl reads and then writes; the operator's status may come between the two,
    which says nothing about the edit, and the API server asks for both again."""

    def answer() -> str | None:
        told = said(scene, "replace", changes)
        return None if WRITTEN_MEANWHILE in told else told

    return until("an edit without another write in its middle", 30, answer)


def as_expected(case: Case, answer: str) -> bool:
    return case.refused in answer if case.refused else answer == ACCEPTED


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.mark.parametrize("case", CREATED, ids=lambda case: case.name)
def test_created(scene: Stage, case: Case) -> None:
    """An object is accepted, or refused with words that say why."""
    answer = said(scene, "create", case.changes)
    assert as_expected(case, answer), answer


@pytest.mark.parametrize("case", EDITED, ids=lambda case: case.name)
def test_edited(scene: Stage, case: Case) -> None:
    """An edit is accepted, or refused with words that say why."""
    suspended = case.before | {"spec.suspend": True}
    scene.kube("create", "--filename", "-", stdin=json.dumps(changed(suspended)))
    try:
        answer = said_to_replacing(scene, case.changes | {"spec.suspend": True})
    finally:
        scene.kube.delete("streamingdataflow", "clicks")
    assert as_expected(case, answer), answer


def test_unknown_field_is_refused(scene: Stage) -> None:
    """A field that there is not is refused by strict clients, such as kubectl."""
    assert "unknown field" in said(scene, "create", {"spec.replica": 2})


def test_every_field_is_explained(scene: Stage) -> None:
    """`kubectl explain` has a description for every field."""
    told = scene.kube("explain", "streamingdataflow.spec", "--recursive=false")
    assert "FIELDS" in told
    assert "<no description>" not in told
