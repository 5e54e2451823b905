"""The dataflows that the oracle runs, and their input."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pyarrow as pa

from binshift.operators.aggregate import OutputMode
from simulator import Flow, Row, StateFlow, Totals
from simulator.flows import Key

ROWS = pa.schema([("key", pa.string()), ("value", pa.int64()), ("time", pa.int64())])
LINKS = pa.schema([("length", pa.int64()), ("digest", pa.int64())])
CHAIN = pa.schema([("key", pa.string()), *LINKS])
MODULUS = (1 << 61) - 1
WINDOW_MS = 2_000


def link(key: Key, rows: Sequence[Row], state: Row | None) -> tuple[list[Row], Row | None]:
    """Chains every value of a key into a digest that any lost, duplicate or swapped record changes; some values end the chain."""
    length, digest = (0, 7) if state is None else (state["length"], state["digest"])
    for row in rows:
        digest = (digest * 1_000_003 + (row["value"] or 0) + 1) % MODULUS
        length += 1
    after = {"length": length, "digest": digest}
    return [{"key": key[0], **after}], None if digest % 11 == 0 else after


def chain(name: str = "chain") -> StateFlow:
    """The flow of `link`."""
    return StateFlow.of(link, ("key",), ROWS, LINKS, CHAIN, name)


def moody() -> StateFlow:
    """A flow that is not deterministic: every call leaves another state, so that attempts can be distinguished."""
    calls = itertools.count()

    def function(key: Key, rows: Sequence[Row], state: Row | None) -> tuple[list[Row], Row | None]:
        return [], {"length": next(calls), "digest": 0}

    return StateFlow.of(function, ("key",), ROWS, LINKS, CHAIN, "moody")


def unlike_the_latest(row: Row) -> bool:
    """A filter on the event time, after the watermark: it also drops some of the rows that advance the watermark."""
    return bool(row["time"] % 700 < 600)


def flows_for(rng: random.Random) -> dict[str, Flow]:
    """A random dataflow: every kind of operator, sometimes two at a time."""
    mode, where = rng.choice(list(OutputMode)), rng.choice([None, unlike_the_latest])
    windowed = Totals("windows", window_ms=WINDOW_MS, delay_ms=1_000, where=where, mode=mode)
    kinds: list[list[Flow]] = [[Totals()], [chain()], [windowed], [chain(), windowed]]
    return {flow.name: flow for flow in rng.choices(kinds, weights=[3, 3, 3, 1])[0]}


def rows_for(rng: random.Random, epoch: int, keys: int, most: int) -> list[Row]:
    """One epoch's input: some keys often, others rarely; sometimes nothing, a null, a late row."""
    if rng.random() < 0.1:
        return []
    now = epoch * 700
    return [
        {
            "key": f"k{int(keys * rng.random() ** 2)}",
            "value": None if rng.random() < 0.05 else rng.randint(-9, 99),
            "time": max(0, now - int(rng.expovariate(1 / 800))),
        }
        for _ in range(rng.randint(0, most))
    ]
