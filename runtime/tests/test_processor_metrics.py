"""Spark's custom metrics of a processor."""

from __future__ import annotations

from typing import Any

from processor_scripted import SEEN, N, Scripted
from processor_world import World


def test_deleted_variables_are_counted() -> None:
    """By each worker in each epoch, as Spark does in each partition; a variable that was never defined does not count."""

    def init(_: Any, handle: Any) -> None:
        handle.getValueState("more", N)
        handle.deleteIfExists("more")
        handle.deleteIfExists("never")

    world = World(Scripted(init=init), SEEN)
    for _ in range(2):
        world.epoch([("a", 1)])
        assert world.counts["numDeletedStateVars"] == 2
