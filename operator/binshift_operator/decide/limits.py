"""How long things are waited for; each in seconds, each configurable."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's patience.

    Attributes:
        registration_wait_seconds: for new executors, before those that are there are used without the others.
        stop_wait_seconds: for a control API that does not answer, before a driver is ended without asking it.
        stop_seconds_max: for a query to stop, before its pod is deleted (which stops it, too).
        lost_node_seconds: for a pod that should have ended, as on a node that does not answer, before it is deleted by force.
        retry_seconds: after a migration failed, before it is asked for again.
        fresh_seconds: how old the newest epoch of a healthy stream may be.
        unreachable_seconds: for a control API that does not answer, before a person is told.
        driver_start_seconds: for a new driver's pod to become ready, before its silence is told, too.
        pods_wait_seconds: for the pods of a StatefulSet to be made at all, before a person is told.
        unplaced_seconds: for a pod to get a node and to start, or to be replaced once it was evicted, before a person is told.
        epoch_seconds_max: for an epoch to be committed once it has begun, before it counts as hanging.
        rest_seconds: between two looks while nothing is awaited.
        busy_seconds: between two looks otherwise.
    """

    registration_wait_seconds: float = 120.0
    stop_wait_seconds: float = 30.0
    stop_seconds_max: float = 300.0
    lost_node_seconds: float = 30.0
    retry_seconds: float = 15.0
    fresh_seconds: float = 30.0
    unreachable_seconds: float = 120.0
    driver_start_seconds: float = 300.0
    pods_wait_seconds: float = 30.0
    unplaced_seconds: float = 180.0
    epoch_seconds_max: float = 300.0
    rest_seconds: float = 10.0
    busy_seconds: float = 1.0
