"""Which tests on a cluster belong to every check: one for each thing that only a cluster can show, in a quarter of an hour.

`make check` runs these, `make test-cluster` all but the long comparisons of `make nightly`.
"""

from __future__ import annotations

import pytest

CORE = {
    "test_cluster_adoption": ["[join]"],
    "test_cluster_balance": ["hot_bins"],
    "test_cluster_batch_plans": ["[two-killed]"],
    "test_cluster_broken_functions": ["[raises]", "hangs"],
    "test_cluster_calls": ["same_calls"],
    "test_cluster_chains": ["[kills1]"],
    "test_cluster_control": ["over_http"],
    "test_cluster_disk": ["[store]"],
    "test_cluster_evolution": ["continues", "cannot_be_read"],
    "test_cluster_examples": ["[windowed_counts]"],
    "test_cluster_failing_tasks": ["comes_back"],
    "test_cluster_faults": ["[flip.planned, executor killed]", "[record.after, driver killed]"],
    "test_cluster_faulty_disk": ["failing_disk", "waits_for_its_offsets"],
    "test_cluster_histories": ["test_history[1]"],
    "test_cluster_odd_input": ["awkward_keys"],
    "test_cluster_odd_names": ["[plain]", "[structs]"],
    "test_cluster_plain_programs": ["rescaled", "[SQL]"],
    "test_cluster_progress": ["has_the_state"],
    "test_cluster_queries": ["append_mode", "idle_stream", "replays_after_a_kill", "available_now", "does_not_wait"],
    "test_cluster_refusals": ["changed_window"],
    "test_cluster_rehearsal": ["made_up_row"],
    "test_cluster_restored": ["restored_backup"],
    "test_cluster_sinks": ["memory", "left_in_the_middle"],
    "test_cluster_standbys": ["[before]"],
    "test_cluster_standing": ["[commit.before]", "[commit.answered]", "[jobs]", "user_is_the_same", "leaves_no_task"],
    "test_cluster_stop": ["leaves_nothing"],
    "test_cluster_watermark": ["[joined-update]", "keep_the_watermark[update]"],
}
"""For each module, parts of its tests' names."""


def mark_core(items: list[pytest.Item]) -> None:
    """Mark the tests of `CORE`; test_cluster_core.py checks that each entry names one."""
    for item in items:
        if any(part in item.name for part in CORE.get(item.path.stem, ())):
            item.add_marker(pytest.mark.core)
