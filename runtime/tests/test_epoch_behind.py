"""A store that is cut off between an epoch's answer and its commit: one epoch behind, it catches up by a delta."""

from __future__ import annotations

import pytest

from simulator import Effect, Fault, Faults, Row, SimulatedCluster, Totals, Tuning

CUT = 3
"""The epoch of which no store gets to the commit."""


STANDING = Tuning(standing=1.0)
"""Every task answers before it commits."""


def row(number: int) -> Row:
    """One of a few keys."""
    return {"key": f"k{number % 7}", "value": number}


def cut_off(fault: Fault) -> SimulatedCluster:
    """A cluster whose stores lack the newest epoch, `CUT`, which is recorded."""

    def plan(effect: Effect) -> Fault | None:
        return fault if effect.what == f"committing epoch {CUT}" else None

    cluster = SimulatedCluster(Totals(), workers=2, tuning=STANDING, faults=Faults(plan))
    for number in range(CUT + 1):
        cluster.epoch([row(number * 10 + each) for each in range(10)])
    for machine in cluster.world.machines.values():
        machine.commit()
    assert cluster.last == CUT
    return cluster


def reads(cluster: SimulatedCluster, since: int) -> list[str]:
    """The files of the log that executors have read since this effect."""
    found = (effect.split(" ", 1) for effect in cluster.world.faults.trace)
    return [
        what.split(" read ")[1]
        for number, what in found
        if int(number) > since and "executor" in what and " read " in what
    ]


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.KILL])
def test_a_store_that_is_an_epoch_behind_reads_the_delta_it_lacks(fault: Fault) -> None:
    """Whether its commit has failed, or its process has died: nothing is rebuilt (I2, I4)."""
    cluster = cut_off(fault)
    since = cluster.world.faults.count
    cluster.epoch([row(1)])
    read = reads(cluster, since)
    assert read
    assert all(name.startswith(f"deltas/{CUT:020}/") for name in read)
    assert cluster.state()[("k1",)]["rows"] == 7


def test_a_store_that_is_behind_gives_its_bins_away() -> None:
    """In the next epoch all bins of a worker flip to another one, which has no copies (I1)."""
    cluster = cut_off(Fault.REFUSE)
    cluster.rescale([1], "AllAtOnce", pre_copy=False)
    cluster.epoch([row(1)])
    cluster.settle()
    assert cluster.route is not None
    assert set(cluster.route.owners.tolist()) == {1}
    assert not cluster.leftovers()
    assert sum(each["rows"] for each in cluster.state().values()) == 41


def test_a_driver_that_runs_the_epoch_again_finds_its_base() -> None:
    """The record exists and Spark has not committed: a replay starts from the state before, which the store still has (I3)."""
    kill = {"on": True}

    def plan(effect: Effect) -> Fault | None:
        if effect.what == f"Spark's commit of epoch {CUT}" and kill.pop("on", False):
            return Fault.KILL
        return Fault.REFUSE if effect.what == f"committing epoch {CUT}" and kill else None

    cluster = SimulatedCluster(Totals(), workers=2, tuning=STANDING, faults=Faults(plan))
    for number in range(CUT + 2):
        cluster.epoch([row(number)])
    assert cluster.world.drivers == 2
    assert sum(each["rows"] for each in cluster.state().values()) == CUT + 2
