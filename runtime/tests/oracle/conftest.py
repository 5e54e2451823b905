"""Fixtures of the oracle's tests: processes that run histories in parallel, one per core."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest


@pytest.fixture(scope="session")
def crew() -> Iterator[ProcessPoolExecutor]:
    """One process per core. They are spawned, not forked: Arrow's threads do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as executor:
        yield executor
        executor.shutdown(cancel_futures=True)
