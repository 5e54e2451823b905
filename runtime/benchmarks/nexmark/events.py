"""NEXMark's persons, auctions and bids as Catalyst expressions over an event number.

Random number j of event n is ``xxhash64(n, seed, j)``, so an event depends on its number and the configuration only: any
partitioning, any batch boundaries and any number of repetitions give the same rows, a stream of numbers and ``spark.range`` give the same
events, and no Python runs while they are made.

It follows the generator of github.com/nexmark/nexmark, which follows Beam's: the ratios 1:3:46, ids from the event number, hot auctions,
sellers, bidders and channels, prices, lifetimes, sizes, and numbers shuffled in groups. Deviations:

- Random numbers are hashes with a seed. The original draws from an unseeded generator, so that no two runs are equal.
- ``occasionalDelaySec`` and ``probDelayedEvent`` are declared and unused there. Here ``delayed_share`` of all events lie up to ``delay_ms``
  before the time of their place in the stream.
- A bidder's id has the first id of all persons added once. The original adds it twice, so that few bids have a bidder.
- Strings are parts of one constant text without blanks. The length of ``extra`` is drawn around the mean that the original
  computes row by row.
- A ``channel_id`` is a hash of the channel's number instead of its reversed bits.
- One generator with a constant rate. The rate is of event time alone: rows due a second divided by it is the dilation, with which state
  grows in the time of an experiment to the size that it would reach in days. ``in_flight_auctions`` sets the number of open auctions.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nexmark.config import AUCTIONS, FIRST_ID, ROUND, SHUFFLE, Config
from nexmark.draws import LAST_AUCTION, LAST_PERSON, Draws

KINDS = ("person", "auction", "bid")
FIRST_CATEGORY = 10
CATEGORIES = 5
CHANNELS = 10_000
WATERMARK = "4 seconds"
WATERMARK_MS = 4000

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")


@dataclass(frozen=True)
class Streams:
    """The three streams, or the three batch frames; each has the event time ``dateTime`` with a watermark of four seconds."""

    person: DataFrame
    auction: DataFrame
    bid: DataFrame

    def frames(self) -> dict[str, DataFrame]:
        """The frames by name."""
        return {"person": self.person, "auction": self.auction, "bid": self.bid}


def streams(numbers: DataFrame, config: Config, keep: tuple[str, ...] = ()) -> Streams:
    """The events of a frame with a column ``n`` of event numbers, from 0; ``keep`` are more of its columns."""
    shuffled = numbers.selectExpr(f"n - n % {config.group} + n * {SHUFFLE} % {config.group} AS n", *keep)
    kind = F.expr(f"n % {ROUND}")
    return Streams(
        person=_marked(_persons(shuffled.where(kind == 0), config, keep)),
        auction=_marked(_auctions(shuffled.where((kind > 0) & (kind <= AUCTIONS)), config, keep)),
        bid=_marked(_bids(shuffled.where(kind > AUCTIONS), config, keep)),
    )


def written(rows: DataFrame) -> Streams:
    """The events of rows with the columns ``person``, ``auction`` and ``bid``, one of which is an event and the others null."""
    made = {name: rows.where(f"{name} IS NOT NULL").selectExpr(f"{name}.*") for name in KINDS}
    return Streams(**{name: _marked(frame) for name, frame in made.items()})


def _marked(frame: DataFrame) -> DataFrame:
    return frame.withWatermark("dateTime", WATERMARK)


def _persons(numbers: DataFrame, config: Config, keep: tuple[str, ...]) -> DataFrame:
    draw = Draws(config)
    return numbers.selectExpr(
        f"{FIRST_ID} + {LAST_PERSON} AS id",
        f"concat_ws(' ', {draw.one_of(1, FIRST_NAMES)}, {draw.one_of(2, LAST_NAMES)}) AS name",
        f"concat({draw.short_text(3, 7)}, '@', {draw.short_text(5, 5)}, '.com') AS emailAddress",
        f"concat_ws(' ', {', '.join(draw.digits(7 + part) for part in range(4))}) AS creditCard",
        f"{draw.one_of(11, CITIES)} AS city",
        f"{draw.one_of(12, STATES)} AS state",
        f"timestamp_millis({draw.time()}) AS dateTime",
        f"{draw.long_text(13, 110, 165)} AS extra",
        *keep,
    )


def _auctions(numbers: DataFrame, config: Config, keep: tuple[str, ...]) -> DataFrame:
    draw = Draws(config)
    made = numbers.selectExpr("n", f"{draw.time()} AS ms", f"{draw.price(1)} AS initialBid", *keep)
    return made.selectExpr(
        f"{FIRST_ID} + {LAST_AUCTION} AS id",
        f"{draw.short_text(3, 20)} AS itemName",
        f"{draw.short_text(5, 100)} AS description",
        "initialBid",
        f"initialBid + {draw.price(2)} AS reserve",
        "timestamp_millis(ms) AS dateTime",
        f"timestamp_millis(ms + 1 + {draw.below(7, str(2 * config.lifetime_ms))}) AS expires",
        f"{draw.person(8, config.hot_seller_ratio, 0)} AS seller",
        f"{FIRST_CATEGORY} + {draw.below(10, str(CATEGORIES))} AS category",
        f"{draw.long_text(11, 313, 469)} AS extra",
        *keep,
    )


def _bids(numbers: DataFrame, config: Config, keep: tuple[str, ...]) -> DataFrame:
    draw = Draws(config)
    hot = f"{draw.below(8, '2')} > 0"
    channel = f"if({hot}, {CHANNELS} + {draw.below(9, str(len(HOT_CHANNELS)))}, {draw.below(9, str(CHANNELS))})"
    made = numbers.selectExpr("n", f"CAST({channel} AS INT) AS c", *keep)
    of_channel = Draws(config, "c")
    names = ", ".join(f"'{name}'" for name in HOT_CHANNELS)
    parts = ", '/', ".join(of_channel.short_text(1000 + 2 * part, 5) for part in range(3))
    with_id = f"c < {CHANNELS} AND {of_channel.below(1006, '10')} > 0"
    return made.selectExpr(
        f"{draw.auction(1)} AS auction",
        f"{draw.person(3, config.hot_bidder_ratio, 1)} AS bidder",
        f"{draw.price(5)} AS price",
        f"if(c < {CHANNELS}, concat('channel-', c), element_at(array({names}), c - {CHANNELS} + 1)) AS channel",
        f"concat('https://www.nexmark.com/', {parts}, '/item.htm?query=1', "
        f"if({with_id}, concat('&channel_id=', {of_channel.below(1007, str(1 << 31))}), '')) AS url",
        f"timestamp_millis({draw.time()}) AS dateTime",
        f"{draw.long_text(6, 54, 82)} AS extra",
        *keep,
    )
