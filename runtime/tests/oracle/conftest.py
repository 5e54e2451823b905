"""Fixtures of the oracle's tests.

Each case runs its history itself, so that processes of pytest that share the cases share the work: a pool that a fixture fills
would run all histories once in every such process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """The engine logs nothing: a history under faults has thousands of records, and its error has its events."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)
