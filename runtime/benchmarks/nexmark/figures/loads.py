"""How the events of a query are due: rate, state before the first measurement, and event time. Open loop."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from measuring import open_loop
from pyspark.sql import SparkSession

from nexmark.config import Config
from nexmark.events import Streams, streams


@dataclass(frozen=True)
class Load:
    """The events of one query.

    Attributes:
        rate: events due in a second of the clock, of all kinds, also of kinds that the query does not read.
        prefill: events that are due at once, at the start: they make the state.
        config: of the generator; its rate is of event time, so `rate` divided by it is the dilation of time.
    """

    rate: int
    prefill: int
    config: Config

    def times(self, factor: float) -> Load:
        """So many times the state: events before the start, events of a window and open auctions grow alike; the rate stays."""
        config = replace(
            self.config,
            rate=max(1, int(self.config.rate * factor)),
            in_flight_auctions=max(1, int(self.config.in_flight_auctions * factor)),
        )
        return Load(self.rate, max(1, int(self.prefill * factor)), config)

    def chosen(self, options: Namespace, times: float = 1.0) -> Load:
        """So many times the state, with what the command line changes; see `add_options`."""
        load = self.times(times * options.size)
        return replace(load, rate=options.rate or load.rate)

    def stream(self, spark: SparkSession) -> Streams:
        """The three streams of one open-loop source; its row number is the event number."""
        numbers = open_loop(spark, keys=1, prefill=self.prefill, rate=self.rate).selectExpr("value AS n")
        return streams(numbers, self.config)


def add_queries(parser: ArgumentParser, known: Iterable[str], default: Sequence[str]) -> None:
    """Queries, by name."""
    names = list(known)

    def query(name: str) -> str:
        if name not in names:
            raise ArgumentTypeError(f"query {name!r} has no load here: use some of {', '.join(names)}")
        return name

    # `choices` would compare the whole default list with each choice.
    parser.add_argument(
        "queries", nargs="*", type=query, default=list(default), metavar="QUERY", help=f"some of {', '.join(names)}"
    )


def add_options(parser: ArgumentParser) -> None:
    """State and rate."""
    parser.add_argument("--size", type=float, default=1.0, help="of the state, as a multiple of the usual one")
    parser.add_argument("--rate", type=int, default=None, help="events due in a second; by default, the query's own")


LOADS: Mapping[str, Load] = {
    # Of 50 events, four are persons or auctions: 4,000 rows a second.
    "q3": Load(50_000, 5_000_000, Config()),
    "q4": Load(4_000, 300_000, Config(rate=4_000, in_flight_auctions=15_000)),
    "q5": Load(4_000, 60_000, Config(rate=4_000, in_flight_auctions=4_000)),
    "q6": Load(4_000, 300_000, Config(rate=4_000, in_flight_auctions=15_000)),
    # A window of 10 s has 20,000,000 events: it is open for the whole measurement, like the paper's of 12 hours.
    "q8": Load(50_000, 3_000_000, Config(rate=2_000_000)),
    # Sessions end after 10 s without a bid: here 100 s of the clock.
    "q11": Load(4_000, 400_000, Config(rate=40_000, active_people=50_000)),
    "q20": Load(4_000, 300_000, Config(rate=4_000, in_flight_auctions=4_000)),
}
"""Of each measured query: below what two cores can do, so that calm times are calm."""

GROWING: Mapping[str, Load] = {
    "q3": Load(10_000, 1_000_000, Config()),
    "q8": Load(10_000, 1_000_000, Config(rate=400_000)),
}
"""The smallest states of the experiments in which the state grows; the rate is low, so that the stream adds little to them."""
