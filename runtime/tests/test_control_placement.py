"""What the API has of placement and epochs: owners and moves of a real migration, and parts that add up."""

from __future__ import annotations

import pytest
from control_fakes import FakeService, client
from control_several import Both
from control_simulated import BINS, World
from hypothesis import given
from hypothesis import strategies as st

from binshift.control.epoch_figures import epochs_of, parts_of
from binshift.control.requests import TargetRequest
from binshift.control.services import ControlService
from binshift.engine.timings import EpochTimings
from binshift.model import Epoch

PARTS = ("plan", "job", "record", "total", "task_bring_up", "task_process", "task_delta", "task_commit", "sink")


def test_a_migration_is_seen_bin_by_bin() -> None:
    """While bins move, each one that is not there yet has one stage and its destination, until all have their new owner."""
    world = World()
    before = world.service.placement(0, BINS)
    assert (before.route_version, before.moving, before.next) == (0, [], None)
    world.service.put_target(TargetRequest(owner="x", generation=1, workers=[0, 1, 2, 3]))
    seen = set()
    for _ in range(100):
        now = world.service.placement(0, BINS)
        assert now.owners == [int(owner) for owner in world.query.route.owners]
        moving = [(bin, group.worker) for group in now.moving for bin in group.bins]
        assert len({bin for bin, _ in moving}) == len(moving)
        assert all(now.owners[bin] != worker for bin, worker in moving)
        seen |= {group.stage for group in now.moving}
        if not moving and now.route_version != 0:
            break
        world.epoch()
    else:
        raise AssertionError("the migration did not end")
    assert {"waiting"} < seen
    assert sorted(set(now.owners)) == [0, 1, 2, 3]


def test_a_page_of_the_placement_has_its_own_moves_only() -> None:
    """Owners and moves are those of the requested bins, and pages join without gaps."""
    world = World()
    world.service.put_target(TargetRequest(owner="x", generation=1, workers=[2, 3]))
    world.epoch()
    whole = world.service.placement(0, BINS)
    first, second = world.service.placement(0, 3), world.service.placement(3, BINS)
    assert (first.next, second.next, second.first) == (3, None, 3)
    assert [*first.owners, *second.owners] == whole.owners
    by_page = sorted(bin for each in (first, second) for group in each.moving for bin in group.bins)
    assert by_page == sorted(bin for group in whole.moving for bin in group.bins)
    assert all(bin < 3 for group in first.moving for bin in group.bins)
    assert world.service.placement(BINS, 5).owners == []
    assert world.service.placement(BINS, 5).next is None


def test_limits_are_checked() -> None:
    """More than the stated limits, and unknown parameters, are rejected by name."""
    api = client(FakeService())
    wrong = ("placement?limit=65537", "placement?first=-1", "epochs?limit=1001", "epochs?after=-2", "epochs?x=1")
    assert [api.get(f"/v1/{each}").status_code for each in wrong] == [422] * len(wrong)
    found = api.get("/v1/placement?first=1&limit=2").json()
    assert (found["owners"], found["moving"][0]["bins"], found["next"]) == ([1, 0], [2], 3)
    assert [each["epoch"] for each in api.get("/v1/epochs").json()["epochs"]] == [7]
    assert api.get("/v1/epochs?after=7").json()["epochs"] == []


def test_before_a_query_there_is_nothing() -> None:
    """A program without a query has no placement and no epochs."""
    service = ControlService()
    assert (service.placement(0, 5).owners, service.newest_epochs(-1, 5).epochs) == ([], [])


@pytest.mark.parametrize("what", ["placement", "epochs"])
def test_with_several_queries_one_is_named(what: str) -> None:
    """Without a name the response lists the names; with one it is that query's."""
    both = Both()
    refused = both.client.get(f"/v1/{what}")
    assert (refused.status_code, refused.json()["error"]) == (404, "NoSuchQuery")
    assert "one, other" in refused.json()["message"]
    assert both.client.get(f"/v1/queries/one/{what}").status_code == 200


@given(st.dictionaries(st.sampled_from(PARTS), st.floats(0, 1e6), max_size=len(PARTS)))
def test_the_parts_of_an_epoch_add_up(seconds: dict[str, float]) -> None:
    """No part is negative, and together they are the total, or what was measured in the job if that is more."""
    parts = parts_of(seconds).model_dump()
    assert min(parts.values()) >= 0
    measured = sum(seconds.get(name, 0.0) for name in ("plan", "job", "record"))
    assert sum(parts.values()) == pytest.approx(max(seconds.get("total", 0.0), measured))


def test_the_newest_epochs_follow_one_another() -> None:
    """Only epochs after the given one are listed, at most as many as requested, with the latency of their records."""
    timings = [
        EpochTimings(
            Epoch(n), 100.0 + n, 1, {"total": 1.0 + n}, 5, 4, 2 if n == 3 else 0, records_in=0 if n == 4 else 9
        )
        for n in range(6)
    ]
    found = epochs_of(timings, 2, 10).epochs
    assert [each.epoch for each in found] == [3, 4, 5]
    assert [each.bins_moved for each in found] == [2, 0, 0]
    assert (found[0].latency_min_seconds, found[0].latency_max_seconds) == (4.0, 7.0)
    assert (found[1].latency_min_seconds, found[1].latency_max_seconds) == (None, None)
    assert [each.epoch for each in epochs_of(timings, -1, 2).epochs] == [4, 5]
    assert epochs_of(timings, 5, 2).epochs == []
    assert epochs_of([], -1, 2).epochs == []
