"""How much Hypothesis tries, and which tests are slow, for the tests of both import roots.

`check` is what every run uses: few examples and always the same ones, so that the same commit gives the same answer.
`thorough` (`make oracle`) searches for the unexpected: many examples, new ones each time; a failure prints the line
that repeats it. Neither has a deadline: a busy machine is not a bug.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "check", max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=2000, print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("check")

SLOW = {
    *("test_operators_join", "test_operators_sessions", "test_operators_deduplicate", "test_operators_complete"),
    *("test_processor_states", "test_processor_decoding", "test_log_index", "test_cds", "test_documents"),
    *(
        "test_control_crowd",
        "test_control_fuzz",
        "test_log_damage",
        "test_log_s3_faults",
        "test_log_s3_requests",
        "test_log_storage",
    ),
    *(
        "test_migration_misses",
        "test_migration_simulation",
        "test_hosting_pod_conf",
        "test_hosting_pod_supervisor",
        "test_page",
        "test_going_nodes_disturbed",
        "test_reconcile_faults",
    ),
    *(
        "test_reconcile_random_edits",
        "test_release_build",
        "test_replay_without_workers",
        "test_rows",
        "test_savepoints",
        "test_store_contract",
        "test_store_damage",
    ),
    *(
        "test_store_lmdb",
        "test_target_controller_balance",
        "test_testing_dataflow",
        "test_testing_tester",
        "test_watermark",
    ),
}
"""Modules whose tests take more than five seconds; `make quick` leaves them out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow modules."""
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker(pytest.mark.slow)
