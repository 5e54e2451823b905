"""The queries whose only state is one aggregation.

The original's ``COUNT(DISTINCT x)`` is ``SIZE(COLLECT_SET(x))`` here, because Spark counts no distinct values on a stream. Bids of the
same time are put in order by price and then by extra text, where the original leaves it open.
"""

from __future__ import annotations

from nexmark.query import Collected

queries = Collected()

RANKS = ("price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def ranked(name: str, aggregate: str, of: str = "{}") -> str:
    """The aggregate of all bids, and of those of each rank of price; ``of`` is what becomes of its result."""
    columns = [f"{of.format(aggregate)} AS total_{name}"]
    for number, rank in enumerate(RANKS, start=1):
        columns.append(f"{of.format(f'{aggregate} FILTER (WHERE {rank})')} AS rank{number}_{name}")
    return ", ".join(columns)


COUNTS = ", ".join(
    (
        ranked("bids", "COUNT(*)"),
        ranked("bidders", "COLLECT_SET(bidder)", "SIZE({})"),
        ranked("auctions", "COLLECT_SET(auction)", "SIZE({})"),
    )
)
DAY = "DATE_FORMAT(dateTime, 'yyyy-MM-dd')"

queries.add(
    "q11",
    "bids of each session of a bidder, which ends after ten seconds without a bid",
    """
    SELECT bidder, COUNT(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
    FROM {bid} GROUP BY bidder, session_window(dateTime, '10 seconds')
    """,
    state=("sessionWindow",),
    closed_by=("bid",),
)

queries.add(
    "q12",
    "bids of each bidder in ten seconds of the clock",
    """
    SELECT bidder, COUNT(*) AS bid_count, window.start AS starttime, window.end AS endtime
    FROM (SELECT bidder, CURRENT_TIMESTAMP() AS p_time FROM {bid})
    GROUP BY bidder, window(p_time, '10 seconds')
    """,
    mode="update",
    state=("aggregate",),
    key=("bidder", "starttime"),
    by_clock=True,
)

queries.add(
    "q15",
    "bids, bidders and auctions of each day, by rank of price",
    f"SELECT {DAY} AS day, {COUNTS} FROM {{bid}} GROUP BY {DAY}",
    mode="update",
    state=("aggregate",),
    key=("day",),
)

queries.add(
    "q16",
    "the same for each channel",
    f"SELECT channel, {DAY} AS day, MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS minute, {COUNTS} FROM {{bid}} GROUP BY channel, {DAY}",
    mode="update",
    state=("aggregate",),
    key=("channel", "day"),
)

queries.add(
    "q17",
    "prices of each auction and day",
    f"""
    SELECT auction, {DAY} AS day, {ranked("bids", "COUNT(*)")}, MIN(price) AS min_price, MAX(price) AS max_price,
      CAST(AVG(price) AS BIGINT) AS avg_price, SUM(price) AS sum_price
    FROM {{bid}} GROUP BY auction, {DAY}
    """,
    mode="update",
    state=("aggregate",),
    key=("auction", "day"),
)

queries.add(
    "q18",
    "the last bid of each bidder for each auction",
    """
    SELECT auction, bidder, last.price, last.channel, last.url, last.dateTime, last.extra
    FROM (
      SELECT auction, bidder, MAX_BY(STRUCT(price, channel, url, dateTime, extra), STRUCT(dateTime, price, extra)) AS last
      FROM {bid} GROUP BY auction, bidder
    )
    """,
    mode="update",
    state=("aggregate",),
    key=("auction", "bidder"),
)
