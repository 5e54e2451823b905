"""Stateful PySpark streaming that rescales while it runs.

``binshift.stateful(frame)`` is the one changed line in a program; see the README. Names are loaded when they are first
used, so that parts which need no Spark (the operator, offline tools) can import this package without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binshift.spark.dataflow import StreamingQuery
    from binshift.spark.frame import StatefulFrame, stateful
    from binshift.spark.listening import state_listener

__all__ = ["StatefulFrame", "StreamingQuery", "state_listener", "stateful"]
__version__ = "0.1.0"

_HOMES = {
    "StatefulFrame": "binshift.spark.frame",
    "StreamingQuery": "binshift.spark.dataflow",
    "state_listener": "binshift.spark.listening",
    "stateful": "binshift.spark.frame",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'binshift' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
