"""The timeouts of the operator in a simulated cluster, in seconds: short, as a tick is one second."""

from __future__ import annotations

from binshift_operator.model.situation import Timeouts

LIMITS = Timeouts(
    registration_wait_seconds=6,
    stop_wait_seconds=4,
    stop_seconds_max=20,
    lost_node_seconds=10,
    retry_seconds=3,
    epoch_seconds_max=15,
    unplaced_seconds=20,
    fresh_seconds=3,
    take_over_seconds=5,
)
