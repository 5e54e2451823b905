"""A CRD that is older than the operator, which Helm leaves as it is: its API server rejects or removes the newest fields of the status."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
from sim_admission import pruned, undeclared
from sim_load import LoadedCluster, started
from sim_rolling import condition
from test_crd import SCHEMA
from test_hot_keys import events, hot

from binshift_operator.errors import Unreachable
from binshift_operator.status_writer import NEWEST_FIELDS

LOGGER = "binshift_operator.status_writer"


def older(*missing: tuple[str, ...]) -> dict[str, Any]:
    """The schema of the status without fields."""
    made: dict[str, Any] = copy.deepcopy(SCHEMA["properties"]["status"])
    for *parents, name in missing:
        place = made
        for parent in parents:
            place = place["properties"][parent]
        del place["properties"][name]  # which the current schema has
    return made


def with_older_crd(cluster: LoadedCluster, *, prunes: bool) -> None:
    """From now on the API server has the CRD of the last release; ``prunes``: it removes unknown fields."""
    schema = older(*NEWEST_FIELDS)

    def admit(status: dict[str, Any]) -> str:
        found = "" if prunes else "".join(f"\n  {each}" for each in undeclared(schema, status, ".status"))
        kept = pruned(schema, status)
        status.clear()
        status.update(kept)
        return (
            f"failed to create typed patch object (default/clicks; binshift.dev/v1alpha1): errors:{found}"
            if found
            else ""
        )

    cluster.server.admit_status = admit


def status_writes(cluster: LoadedCluster, ticks: int) -> int:
    """How many requests to write the status there are in this time."""
    count = 0
    for _ in range(ticks):
        cluster.run(1)
        count += len([each for each in cluster.server.requests if each.endswith("/clicks/status")])
    return count


@pytest.mark.parametrize("prunes", [False, True])
def test_the_rest_of_the_status_is_written(prunes: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A hot key and a restored snapshot are left out; edits are settled, and one warning names the upgrade of the CRD."""
    caplog.set_level(logging.WARNING, LOGGER)
    cluster = started(2)
    with_older_crd(cluster, prunes=prunes)
    cluster.hot_keys = (hot(0.63),)
    cluster.edit(replicas=3)
    cluster.until(cluster.settled)
    cluster.run(5)
    assert "hotKeys" not in cluster.status
    assert condition(cluster, "Ready")["status"] == "True"
    assert len(events(cluster, "HotKey")) == 1
    (warning,) = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    assert "kubectl apply --server-side" in warning


@pytest.mark.parametrize("prunes", [False, True])
def test_nothing_is_repeated(prunes: bool) -> None:
    """A settled dataflow with a hot key has one event, and its status is written no more often than with the current CRD."""
    current, old = started(2, mode="Recommend"), started(2, mode="Recommend")
    with_older_crd(old, prunes=prunes)
    writes: list[int] = []
    for cluster in (current, old):
        cluster.hot_keys = (hot(0.63),)
        cluster.run(5)
        writes.append(status_writes(cluster, 30))
    assert writes[0] == writes[1] < 10
    for kind in ("HotKey", "NoHotKey"):
        assert len(events(old, kind)) == 1
        old.hot_keys = ()
        old.run(3)


def test_a_crd_of_this_release_has_all_fields() -> None:
    """What is left out are fields of the current CRD; nothing is left out with it."""
    older(*NEWEST_FIELDS)
    cluster = started(2, mode="Recommend")
    schema = older()
    cluster.server.admit_status = lambda status: "".join(undeclared(schema, status, ".status"))
    cluster.hot_keys = (hot(0.63),)
    cluster.run(5)
    assert "hotKeys" in cluster.status


def test_other_rejections_are_no_older_crd() -> None:
    """A status that is rejected without such a field, or for another reason, is an error as before."""
    cluster = started(2)
    for message in ("etcd is away", "failed to create typed patch object: .status.phase: field not declared in schema"):
        cluster.server.refusing = {"/clicks/status": (500, message)}
        cluster.edit(replicas=cluster.dataflow["spec"]["replicas"] + 1)
        with pytest.raises(Unreachable, match=message[:20]):
            cluster.reconciler.reconcile("default", "clicks")
