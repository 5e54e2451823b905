"""What is drift and what is not: empty values, volumes that are mounted twice, and differences that cannot be removed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_objects import without_empty
from test_children_rendering import all_of, dataflow, live_object

from binshift_operator.children import compare, next_attempt, with_applied_hash
from binshift_operator.children.comparison import AGAIN_SECONDS_MAX, FORGET_SECONDS, applied_hash, is_as_rendered
from binshift_operator.model.apply_attempt import ApplyAttempt
from binshift_operator.model.names import Child
from binshift_operator.model.observed import ChildState, ObservedChild

EMPTY = {
    "spec.application.env": [{"name": "A", "value": ""}],
    "spec.executor": {
        "pod": {
            "tolerations": [{"key": "", "operator": "Exists", "effect": ""}],
            "volumes": [{"name": "data", "emptyDir": {"sizeLimit": None}}],
            "volumeMounts": [
                {"name": "data", "mountPath": "/a", "readOnly": False},
                {"name": "data", "mountPath": "/b", "readOnly": True},
            ],
        }
    },
}
MANIFEST = all_of(EMPTY)[Child.EXECUTORS]


def seen(live: dict[str, Any], attempt: ApplyAttempt | None = None, now: float = 0.0) -> ObservedChild:
    """What is found of the executors."""
    return compare(live, MANIFEST, dataflow().key, attempt, now)


def worker(live: dict[str, Any]) -> dict[str, Any]:
    """The container in it."""
    found: dict[str, Any] = live["spec"]["template"]["spec"]["containers"][0]
    return found


def test_what_is_empty_may_be_left_out() -> None:
    """An empty value, false and an empty key are not there when the server answers, and nothing has drifted."""
    live = without_empty(live_object(MANIFEST))
    assert live != live_object(MANIFEST)
    assert seen(live).state is ChildState.CURRENT


def test_one_volume_in_two_places() -> None:
    """Mounts are identified by their paths, in any order; a missing or different one is drift."""
    live = live_object(MANIFEST)
    worker(live)["volumeMounts"].reverse()
    assert seen(live).state is ChildState.CURRENT
    writable = copy.deepcopy(live)
    next(each for each in worker(writable)["volumeMounts"] if each["mountPath"] == "/b")["readOnly"] = False
    assert seen(writable).state is ChildState.DRIFTED
    worker(live)["volumeMounts"] = [each for each in worker(live)["volumeMounts"] if each["mountPath"] != "/a"]
    assert seen(live).state is ChildState.DRIFTED


def test_what_is_empty_is_compared_where_it_is_there() -> None:
    """A value where none was requested is drift, as is the absence of one that was."""
    live = live_object(MANIFEST)
    variable = next(each for each in worker(live)["env"] if each["name"] == "A")
    variable["value"] = "x"
    assert seen(live).state is ChildState.DRIFTED
    del variable["value"]
    assert seen(live).state is ChildState.CURRENT
    del worker(live)["image"]
    assert seen(live).state is ChildState.DRIFTED


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"])),
    lambda parts: st.dictionaries(st.sampled_from("abc"), parts, max_size=3) | st.lists(parts, max_size=2),
    max_leaves=12,
)


def least(value: Any) -> Any:
    """A value without anything that is empty."""
    if isinstance(value, list):
        return [least(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: least(each) for name, each in value.items() if each}


@given(VALUES)
def test_nothing_drifts_by_being_left_out(spec: Any) -> None:
    """Whatever is rendered, an answer without its empty fields is as rendered."""
    manifest = {"metadata": {"name": "a"}, "spec": spec}
    assert is_as_rendered(with_applied_hash(manifest), manifest)
    assert is_as_rendered({**with_applied_hash(manifest), **least({"spec": spec})}, manifest)


def changed_again() -> dict[str, Any]:
    """As applied, except for what another client changes after every application."""
    live = live_object(MANIFEST)
    live["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 7
    return live


@pytest.mark.parametrize(
    ("attempt", "found", "again"),
    [
        (None, ChildState.DRIFTED, False),
        (ApplyAttempt(applied_hash(MANIFEST), 1, 999.0), ChildState.CONTESTED, False),
        (ApplyAttempt(applied_hash(MANIFEST), 1, 997.0), ChildState.CONTESTED, True),
        (ApplyAttempt(applied_hash(MANIFEST), 5, 990.0), ChildState.CONTESTED, False),
        (ApplyAttempt(applied_hash(MANIFEST), 99, 1000.0 - AGAIN_SECONDS_MAX), ChildState.CONTESTED, True),
        (ApplyAttempt(applied_hash(MANIFEST), 1, 1000.0 - FORGET_SECONDS), ChildState.DRIFTED, False),
        (ApplyAttempt("of another spec", 1, 999.0), ChildState.DRIFTED, False),
    ],
)
def test_what_does_not_last_is_kept(attempt: ApplyAttempt | None, found: ChildState, again: bool) -> None:
    """What was just applied and differs again is contested, and applied at growing intervals; for a limited time, and not for another spec."""
    child = seen(changed_again(), attempt, 1000.0)
    assert (child.state, child.retry_due) == (found, again)


def test_an_edit_is_never_kept() -> None:
    """A manifest that was not applied yet is drift, however recently another one was."""
    newer = all_of({**EMPTY, "spec.image": "example/clicks:2"})[Child.EXECUTORS]
    attempt = ApplyAttempt(applied_hash(newer), 3, 999.0)
    assert compare(changed_again(), newer, dataflow().key, attempt, 1000.0).state is ChildState.DRIFTED


def test_tries_are_counted() -> None:
    """Only an application that did not last counts; another manifest, or a long time, resets the count."""
    drifted, kept = ObservedChild(ChildState.DRIFTED), ObservedChild(ChildState.CONTESTED)
    first = next_attempt(drifted, MANIFEST, None, 10.0)
    assert first == ApplyAttempt(applied_hash(MANIFEST), 1, 10.0)
    assert next_attempt(kept, MANIFEST, first, 20.0).attempts == 2
    assert next_attempt(ObservedChild(ChildState.CURRENT), MANIFEST, first, 20.0).attempts == 1
    assert next_attempt(kept, MANIFEST, ApplyAttempt(first.manifest_hash, 7, 10.0), 10.0 + FORGET_SECONDS).attempts == 1
    assert next_attempt(kept, MANIFEST, ApplyAttempt("another", 7, 10.0), 20.0).attempts == 1
