"""Tests of stateful processors in milliseconds, without Spark: on binshift's own state, timers, routing and log, in memory.

`TwsTester` has the interface of PySpark's tester of the same name, and calls a processor for one key at a time. `Dataflow` runs whole
epochs on several workers, between and during which bins move, workers are lost and the driver restarts. Names are loaded when they are
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binshift.spark.testing.dataflow import Dataflow
    from binshift.spark.testing.tester import TwsTester

__all__ = ["Dataflow", "TwsTester"]

_HOMES = {"Dataflow": "dataflow", "TwsTester": "tester"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'binshift.testing' has no attribute {name!r}")
    return getattr(import_module(f"binshift.spark.testing.{_HOMES[name]}"), name)
