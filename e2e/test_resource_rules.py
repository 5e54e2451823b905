"""The resource's own rules, as a real API server applies them to valid and invalid objects and edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crd_case import Case
from crd_cases import CREATED, EDITED, changed

from kube import Refused, until
from stage import Stage

ACCEPTED = ""
WRITTEN_MEANWHILE = "the object has been modified"


def reply(scene: Stage, verb: str, changes: dict[str, Any]) -> str:
    """What the API server has against an object; nothing is kept of it."""
    try:
        scene.kube(verb, "--dry-run=server", "--validate=strict", "--filename", "-", stdin=json.dumps(changed(changes)))
    except Refused as refusal:
        return str(refusal)
    return ACCEPTED


def reply_to_replacing(scene: Stage, changes: dict[str, Any]) -> str:
    """What the API server has against an edit. kubectl reads and then writes; the operator's status may come between the two,
    which has nothing to do with the edit; the API server expects a retry."""

    def answer() -> str | None:
        message = reply(scene, "replace", changes)
        return None if WRITTEN_MEANWHILE in message else message

    return until("an edit without another write in its middle", 30, answer)


def as_expected(case: Case, answer: str) -> bool:
    return case.refused in answer if case.refused else answer == ACCEPTED


@pytest.fixture(scope="module")
def scene(module_scene: Stage) -> Stage:
    return module_scene


@pytest.mark.parametrize("case", CREATED, ids=lambda case: case.name)
def test_created(scene: Stage, case: Case) -> None:
    """An object is accepted, or refused with a message that has the reason."""
    answer = reply(scene, "create", case.changes)
    assert as_expected(case, answer), answer


@pytest.mark.parametrize("case", EDITED, ids=lambda case: case.name)
def test_edited(scene: Stage, case: Case) -> None:
    """An edit is accepted, or refused with a message that has the reason."""
    suspended = case.before | {"spec.suspend": True}
    scene.kube("create", "--filename", "-", stdin=json.dumps(changed(suspended)))
    try:
        answer = reply_to_replacing(scene, case.changes | {"spec.suspend": True})
    finally:
        scene.kube.delete("streamingdataflow", "clicks")
    assert as_expected(case, answer), answer


def test_unknown_field_is_refused(scene: Stage) -> None:
    """A field that there is not is refused by strict clients, such as kubectl."""
    assert "unknown field" in reply(scene, "create", {"spec.replica": 2})


def test_every_field_is_explained(scene: Stage) -> None:
    """`kubectl explain` has a description for every field."""
    explained = scene.kube("explain", "streamingdataflow.spec", "--recursive=false")
    assert "FIELDS" in explained
    assert "<no description>" not in explained
