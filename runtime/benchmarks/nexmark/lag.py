"""Record latency of a query in an open loop: calm, while half of its state moves from 2 to 4 workers, and while 25 % moves and moves back.

The second move is Megaphone's: a fixed set of workers, a quarter of all bins to others and back again, and the way back is reported. Half of
the events are there before the clock starts, so that the state has its size. Method and figures are those of `moving` and `latency`.
"""

from __future__ import annotations

import time
from argparse import Namespace
from typing import Any

from latency import Latencies, latencies_of
from measuring import Bench, await_batch, open_loop
from moving import Times, columns

from binshift.model import Bin, Worker
from nexmark.config import Config
from nexmark.engines import writer
from nexmark.events import streams
from nexmark.moves import settle
from nexmark.query import Query

OUT, BACK = "2 to 4", "25 % back"


def start(running: Bench, query: Query, args: Namespace, workers: int) -> Any:
    """The query on the open-loop source."""
    config = Config(group=args.group, in_flight_auctions=args.in_flight, rate=args.event_rate)
    numbers = open_loop(running.spark, keys=1, prefill=args.prefill, rate=args.rate).selectExpr("value AS n")
    frame = query.build(streams(numbers, config))
    settings = {"bins": args.bins, "workers": workers, "batch_size": args.batch_size}
    return writer(frame, query, running.checkpoint(), **settings).format("noop").start()


def rescaled(running: Bench, query: Query, args: Namespace, strategy: str) -> dict[str, Any]:
    """Half of the bins move from two workers to four."""
    started = start(running, query, args, workers=2)
    calm_from = _calm(started, args)
    began = time.time()
    settle(started.rescale(4, strategy=strategy, pre_copy=strategy != "AllAtOnce"))
    return _row(started, query, args, Times(calm_from, began, time.time()), strategy, OUT)


def quarter_back(running: Bench, query: Query, args: Namespace, strategy: str) -> dict[str, Any]:
    """A quarter of the bins moves between fixed workers, and back."""
    started = start(running, query, args, workers=4)
    _calm(started, args)
    before = {Bin(each): started.route.owner(Bin(each)) for each in range(0, args.bins, 4)}
    pre_copy = strategy != "AllAtOnce"
    settle(
        started.move({each: Worker((w + 2) % 4) for each, w in before.items()}, strategy=strategy, pre_copy=pre_copy)
    )
    calm_from = time.time()
    time.sleep(args.calm_seconds)
    began = time.time()
    settle(started.move(before, strategy=strategy, pre_copy=pre_copy))
    return _row(started, query, args, Times(calm_from, began, time.time()), strategy, BACK)


def _calm(started: Any, args: Namespace) -> float:
    await_batch(started, args.settle_epochs)
    began = time.time()
    time.sleep(args.calm_seconds)
    return began


def _row(started: Any, query: Query, args: Namespace, times: Times, strategy: str, move: str) -> dict[str, Any]:
    time.sleep(args.calm_seconds / 3)
    started.stop()
    found: Latencies = latencies_of(started.recentProgress, args.prefill, args.rate)
    case = {"query": query.name, "move": move, "strategy": strategy, "events": args.prefill, "bins": args.bins}
    return case | columns(found, times)
