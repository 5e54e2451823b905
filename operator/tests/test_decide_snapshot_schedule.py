"""The plan of a schedule on any set of snapshots, at any time: what is due, and what is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from binshift_operator.decide.snapshot_schedule import plan_schedule
from binshift_operator.model.names import SnapshotKey
from binshift_operator.model.snapshot_spec import SnapshotSchedule
from binshift_operator.model.snapshots import Snapshot, SnapshotPhase, SnapshotStatus

NOW = 1.7e9


def snapshot(number: int, age: float, phase: SnapshotPhase, deleting: bool) -> Snapshot:
    """One of this age in seconds, in a phase."""
    key = SnapshotKey("ns", f"clicks-{number}", f"u-{number}")
    return Snapshot(key, 1, NOW - age, "clicks", periodic=True, deleting=deleting, status=SnapshotStatus(phase))


SETS = st.lists(st.tuples(st.floats(0, 10_000), st.sampled_from(SnapshotPhase), st.booleans()), max_size=12).map(
    lambda found: [snapshot(number, *each) for number, each in enumerate(found)]
)


@given(SETS, st.floats(60, 7200), st.integers(1, 5))
def test_plan(found: list[Snapshot], every: float, keep: int) -> None:
    """A slot is due if nothing is unfinished and nothing is as new as the slot; of each kind of end the newest are kept, and never more go."""
    plan = plan_schedule(SnapshotSchedule(every, keep), found, NOW)
    begun = plan.next_slot - every
    assert begun <= NOW < plan.next_slot + 1e-3
    present = [each for each in found if not each.deleting]
    unfinished = [each for each in present if not each.status.is_final]
    assert (plan.slot is None) == bool(unfinished or [each for each in present if each.created_at >= begun])
    assert plan.slot in (None, begun)
    for phase in (SnapshotPhase.COMPLETE, SnapshotPhase.FAILED):
        ended = [each for each in present if each.status.phase is phase]
        removed = [each for each in plan.remove if each.status.phase is phase]
        kept = [each for each in ended if each not in removed]
        assert len(removed) == max(0, len(ended) - keep)
        assert all(old.created_at <= new.created_at for old in removed for new in kept)
    assert all(each.status.is_final and not each.deleting for each in plan.remove)
