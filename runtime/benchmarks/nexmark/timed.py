"""The queries by `transformWithState`: auctions that end by a timer, and lists. Q19 has a second form as one aggregation."""

from __future__ import annotations

from pyspark.sql import DataFrame

from nexmark.events import Streams
from nexmark.processors import (
    AVERAGE_OF_CATEGORY,
    AVERAGE_OF_SELLER,
    CLOSED,
    RANKED,
    BestBids,
    CategoryAverage,
    ClosedAuctions,
    SellerAverage,
)
from nexmark.query import Collected

queries = Collected()

AUCTIONS_AND_BIDS = """
    SELECT id, itemName, seller, category, dateTime, UNIX_MILLIS(dateTime) AS at, UNIX_MILLIS(expires) AS expires,
      CAST(NULL AS BIGINT) AS bidder, CAST(NULL AS BIGINT) AS price, CAST(NULL AS STRING) AS extra
    FROM {auction}
    UNION ALL
    SELECT auction, NULL, NULL, NULL, dateTime, UNIX_MILLIS(dateTime), NULL, bidder, price, extra FROM {bid}
"""


def closed(streams: Streams) -> DataFrame:
    """Every auction that has ended, with its highest bid."""
    both = streams.bid.sparkSession.sql(AUCTIONS_AND_BIDS, auction=streams.auction, bid=streams.bid)
    return both.groupBy("id").transformWithState(ClosedAuctions(), CLOSED, "append", "EventTime")


def averages(streams: Streams) -> DataFrame:
    """The average final price of each category."""
    return (
        closed(streams).groupBy("category").transformWithState(CategoryAverage(), AVERAGE_OF_CATEGORY, "append", "None")
    )


def seller_averages(streams: Streams) -> DataFrame:
    """The average final price of each seller's last auctions."""
    return closed(streams).groupBy("seller").transformWithState(SellerAverage(), AVERAGE_OF_SELLER, "append", "None")


def winning_bids(streams: Streams) -> DataFrame:
    """Every auction that has ended, with times as timestamps."""
    return closed(streams).selectExpr(
        *("id", "itemName", "seller", "category", "timestamp_millis(expires_ms) AS expires", "bidder", "price"),
        *("timestamp_millis(bid_ms) AS bid_dateTime", "bid_extra"),
    )


def best_bids(streams: Streams) -> DataFrame:
    """The ten best bids of each auction."""
    bids = streams.bid.selectExpr(
        "auction", "bidder", "price", "channel", "url", "UNIX_MILLIS(dateTime) AS at", "extra"
    )
    ranked = bids.groupBy("auction").transformWithState(BestBids(), RANKED, "update", "None")
    columns = ("auction", "bidder", "price", "channel", "url", "timestamp_millis(bid_ms) AS dateTime", "extra")
    return ranked.selectExpr(*columns, "rank_number")


CLOCKED = ("auction", "bid")
TWICE = ("transformWithState", "transformWithState")

queries.add(
    "q4", "the average final price of each category", averages, state=TWICE, key=("category",), closed_by=CLOCKED
)
queries.add(
    "q6", "the average final price of each seller's last auctions", seller_averages, state=TWICE, closed_by=CLOCKED
)
queries.add("q9", "the highest bid of each auction", winning_bids, state=TWICE[:1], closed_by=CLOCKED)
queries.add("q19", "the ten best bids of each auction", best_bids, mode="update", state=TWICE[:1], key=("auction",))

queries.add(
    "q19_lists",
    "the same as one aggregation",
    """
    SELECT auction, bid.bidder, bid.price, bid.channel, bid.url, bid.dateTime, bid.extra, CAST(place + 1 AS BIGINT) AS rank_number
    FROM (
      SELECT auction, POSEXPLODE(best) AS (place, bid)
      FROM (
        SELECT auction, MAX_BY(
            STRUCT(bidder, price, channel, url, dateTime, extra), STRUCT(price, -UNIX_MICROS(dateTime), extra), 10
          ) AS best
        FROM {bid} GROUP BY auction
      )
    )
    """,
    mode="update",
    state=("aggregate",),
    key=("auction",),
)
