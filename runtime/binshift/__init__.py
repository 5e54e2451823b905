"""Stateful PySpark streaming that rescales while it runs.

A program stays plain PySpark: ``binshift.writeStream(frame)`` in the place of ``frame.writeStream``, or `install`, after which
``frame.writeStream`` itself does; see the README. Names are loaded when they are first used, so that parts which need no Spark
(the operator, offline tools) can import this package without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binshift.spark.frontend.dataflow import StreamingQuery
    from binshift.spark.frontend.installing import install, writeStream
    from binshift.spark.frontend.listening import state_listener
    from binshift.spark.reading.sources import register_state_sources
    from binshift.spark.stages.vectorised import vectorised

__all__ = ["StreamingQuery", "install", "register_state_sources", "state_listener", "vectorised", "writeStream"]
__version__ = "0.1.0"

_HOMES = {
    "StreamingQuery": "binshift.spark.frontend.dataflow",
    "install": "binshift.spark.frontend.installing",
    "register_state_sources": "binshift.spark.reading.sources",
    "state_listener": "binshift.spark.frontend.listening",
    "vectorised": "binshift.spark.stages.vectorised",
    "writeStream": "binshift.spark.frontend.installing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'binshift' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
