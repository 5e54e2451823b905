"""What the oracle's tests share: processes that play histories side by side, one for each core."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest


@pytest.fixture(scope="session")
def crew() -> Iterator[ProcessPoolExecutor]:
    """A process a core. New ones, not forked: Arrow's threads do not survive a fork."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as executor:
        yield executor
        executor.shutdown(cancel_futures=True)
