"""The division of a memory limit: the parts add up, each is sufficient, and more memory never shrinks a part."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.errors import InvalidSettings
from binshift.memory import (
    DAEMON_MIB,
    DATA_MIB_MIN,
    HEAP_MIB_MIN,
    MIB,
    PROCESS_MIB,
    PROGRAM_MIB,
    STANDBY_MIB,
    SUPERVISOR_MIB,
    _overhead,
    driver_heap_mib,
    spark_mib,
    worker_heap_mib,
)
from binshift.ports import Ports, variable

LIMITS = st.integers(0, 64 * 1024 * MIB)
SLOTS = st.integers(2, 64)


@given(LIMITS, SLOTS, st.booleans())
def test_a_workers_parts_fit_its_limit(limit: int, slots: int, standby: bool) -> None:
    """All parts together are the limit (I7); a limit that is too low is refused with the lowest one that fits."""
    try:
        heap = worker_heap_mib(limit, slots, standby=standby)
    except InvalidSettings as error:
        least = int(re.findall(r"(\d+) MiB or more", str(error))[0])
        assert limit < least * MIB
        assert worker_heap_mib(least * MIB, slots, standby=standby) == HEAP_MIB_MIN
        with pytest.raises(InvalidSettings, match="standby" if standby else "task slots does"):
            worker_heap_mib((least - 2) * MIB, slots, standby=standby)
        return
    data = limit // MIB - DAEMON_MIB - _overhead(limit // MIB) - PROCESS_MIB * (slots + 1) - heap
    data -= STANDBY_MIB * standby
    assert heap >= HEAP_MIB_MIN
    assert data >= DATA_MIB_MIN
    assert heap in (HEAP_MIB_MIN, data, data - 1)


@given(LIMITS)
def test_a_drivers_parts_fit_its_limit(limit: int) -> None:
    """As a worker's."""
    try:
        heap = driver_heap_mib(limit)
    except InvalidSettings as error:
        least = int(re.findall(r"(\d+) MiB or more", str(error))[0])
        assert limit < least * MIB
        assert driver_heap_mib(least * MIB) >= HEAP_MIB_MIN
        return
    assert heap + SUPERVISOR_MIB + PROGRAM_MIB + _overhead(limit // MIB) == limit // MIB
    assert heap >= HEAP_MIB_MIN


@given(LIMITS, st.integers(0, 1024 * MIB), SLOTS)
def test_more_memory_is_never_less_heap(limit: int, more: int, slots: int) -> None:
    """The heap does not shrink as the limit grows."""
    try:
        small = worker_heap_mib(limit, slots)
    except InvalidSettings:
        return
    assert worker_heap_mib(limit + more, slots) >= small - 1


def test_one_task_slot_is_not_enough() -> None:
    """With one slot, copying would have to wait for epochs, or epochs for copying."""
    with pytest.raises(InvalidSettings, match="1 task slots cannot copy"):
        worker_heap_mib(8 * 1024 * MIB, 1)


@pytest.mark.parametrize("text", ["0", "65536", "-1", "x", "٣", "7400.0"])
def test_a_port_that_is_none_is_named(text: str) -> None:
    """The message names the variable; an empty one counts as not set."""
    with pytest.raises(InvalidSettings, match="BINSHIFT_DRIVER_BLOCKS_PORT"):
        Ports.from_environment({variable("driver_blocks"): text})
    assert Ports.from_environment({variable("worker"): ""}) == Ports()


def test_no_two_ports_are_the_same() -> None:
    """All ports differ, because some pods use several of them."""
    ports = [getattr(Ports(), name) for name in Ports.__dataclass_fields__]
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        *(("900m", 900), ("900M", 900), ("2g", 2048), ("2gb", 2048), ("2GB", 2048), ("1t", 1 << 20), ("1pb", 1 << 30)),
        *(("900", 900), (" 900mb ", 900), ("1048576", 1 << 20), ("2097152b", 2), ("3000k", 2), ("3072KB", 3)),
    ],
)
def test_spark_sizes(text: str, mib: int) -> None:
    """Every notation that Spark has for a size is accepted, and rounded down to whole MiB."""
    assert spark_mib(text, "x") == mib


@pytest.mark.parametrize(
    "text", ["", "g", "2Gi", "1.5g", "-1g", "2 g", "0", "1000k", "2xb", "2bb", "infinity", "9" * 30 + "g"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """A size that Spark could not read, or below one MiB, is rejected with its name and an example."""
    with pytest.raises(InvalidSettings, match=r"spark\.executor\.memory is .*such as 900m or 2g"):
        spark_mib(text, "spark.executor.memory")
