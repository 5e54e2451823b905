"""What every query must return in the end, as DuckDB computes it from the same events in Parquet files that Spark wrote.

The statements follow the original's SQL, not the texts of `queries`: another engine, and another form. Windows and auctions
count if the final watermark has closed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import functions as F

from nexmark.events import WATERMARK_MS, Streams
from nexmark.query import Query

RANKS = (("rank1", "price < 10000"), ("rank2", "price >= 10000 AND price < 1000000"), ("rank3", "price >= 1000000"))
DAY = "strftime(dateTime, '%Y-%m-%d')"


def _ranked(name: str, aggregate: str) -> str:
    parts = [f"{aggregate} AS total_{name}"]
    return ", ".join(parts + [f"{aggregate} FILTER (WHERE {rank}) AS {short}_{name}" for short, rank in RANKS])


COUNTS = ", ".join(
    (
        _ranked("bids", "count(*)"),
        _ranked("bidders", "count(DISTINCT bidder)"),
        _ranked("auctions", "count(DISTINCT auction)"),
    )
)
ENDED = """
    SELECT A.id, A.itemName, A.seller, A.category, A.expires, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra
    FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
    QUALIFY row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.extra DESC) = 1
"""
CLOSED = f"SELECT * FROM ({ENDED}) WHERE expires <= getvariable('watermark')"
WINDOWS = """
    SELECT auction, count(*) AS num, endtime
    FROM (
      SELECT auction, unnest(generate_series(0, 4)) * INTERVAL 2 SECOND
        + time_bucket(INTERVAL 2 SECOND, dateTime) + INTERVAL 2 SECOND AS endtime
      FROM bid
    )
    GROUP BY auction, endtime
"""
HOT_ITEMS = f"""
    SELECT auction, num, endtime FROM ({WINDOWS}) WHERE endtime <= getvariable('watermark')
    QUALIFY num = max(num) OVER (PARTITION BY endtime)
"""
BEST = """
    SELECT auction, bidder, price, channel, url, dateTime, extra,
      row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime, extra DESC) AS rank_number
    FROM bid QUALIFY rank_number <= 10
"""
EUROS = "CAST(0.908 * price AS DECIMAL(23, 3))"
CHANNEL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"

EXPECTED: Mapping[str, str] = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": f"SELECT auction, bidder, {EUROS} AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A, person P
        WHERE A.seller = P.id AND A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
    """,
    "q4": f"SELECT category, CAST(sum(price) // count(*) AS BIGINT) AS average FROM ({CLOSED}) GROUP BY category",
    "q5": HOT_ITEMS,
    "q5_lists": HOT_ITEMS,
    "q6": f"""
        SELECT seller, id, CAST(sum(price) OVER last // count(*) OVER last AS BIGINT) AS avg_price FROM ({CLOSED})
        WINDOW last AS (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
    """,
    "q7": """
        SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
        FROM bid B JOIN (
          SELECT max(price) AS maxprice, time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS endtime
          FROM bid GROUP BY endtime HAVING endtime <= getvariable('watermark')
        ) M ON B.price = M.maxprice
        WHERE B.dateTime BETWEEN M.endtime - INTERVAL 10 SECOND AND M.endtime
    """,
    "q8": """
        SELECT DISTINCT P.id, P.name, time_bucket(INTERVAL 10 SECOND, P.dateTime) AS stime
        FROM person P JOIN auction A ON P.id = A.seller
          AND time_bucket(INTERVAL 10 SECOND, P.dateTime) = time_bucket(INTERVAL 10 SECOND, A.dateTime)
        WHERE stime + INTERVAL 10 SECOND <= getvariable('watermark')
    """,
    "q9": CLOSED,
    "q9_join": ENDED,
    "q10": """
        SELECT auction, bidder, price, dateTime, extra, strftime(dateTime, '%Y-%m-%d') AS dt, strftime(dateTime, '%H:%M') AS hm
        FROM bid
    """,
    "q11": """
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS starttime, max(dateTime) + INTERVAL 10 SECOND AS endtime
        FROM (
          SELECT bidder, dateTime, sum(first) OVER (PARTITION BY bidder ORDER BY dateTime ROWS UNBOUNDED PRECEDING) AS number
          FROM (
            SELECT bidder, dateTime, CASE WHEN dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime)
              <= INTERVAL 10 SECOND THEN 0 ELSE 1 END AS first
            FROM bid
          )
        )
        GROUP BY bidder, number HAVING endtime <= getvariable('watermark')
    """,
    "q12": """
        SELECT bidder, count(*) AS bid_count, starttime, starttime + INTERVAL 10 SECOND AS endtime
        FROM (SELECT bidder, time_bucket(INTERVAL 10 SECOND, ran_at) AS starttime FROM bid JOIN clock USING (step))
        GROUP BY bidder, starttime
    """,
    "q13": """
        SELECT auction, bidder, price, dateTime, CAST(S.key AS VARCHAR) AS value
        FROM bid, (SELECT range AS key FROM range(10000)) S WHERE auction % 10000 = S.key
    """,
    "q14": f"""
        SELECT auction, bidder, {EUROS} AS price,
          CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS bidTimeType,
          dateTime, extra, CAST(len(list_filter(string_split(extra, ''), each -> each = 'c')) AS BIGINT) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q15": f"SELECT {DAY} AS day, {COUNTS} FROM bid GROUP BY day",
    "q16": f"SELECT channel, {DAY} AS day, max(strftime(dateTime, '%H:%M')) AS minute, {COUNTS} FROM bid GROUP BY channel, day",
    "q17": f"""
        SELECT auction, {DAY} AS day, {_ranked("bids", "count(*)")}, min(price) AS min_price, max(price) AS max_price,
          CAST(sum(price) // count(*) AS BIGINT) AS avg_price, CAST(sum(price) AS BIGINT) AS sum_price
        FROM bid GROUP BY auction, day
    """,
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, price DESC, extra DESC) = 1
    """,
    "q19": BEST,
    "q19_lists": BEST,
    "q20": """
        SELECT auction, bidder, price, channel, url, B.dateTime AS bid_dateTime, B.extra AS bid_extra, itemName, description,
          initialBid, reserve, A.dateTime AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
        FROM bid B, auction A WHERE B.auction = A.id AND A.category = 10
    """,
    "q21": f"""
        SELECT auction, bidder, price, channel, CASE lower(channel)
            WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {CHANNEL_ID}
          END AS channel_id
        FROM bid WHERE {CHANNEL_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
    """,
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
          split_part(url, '/', 6) AS dir3
        FROM bid
    """,
}


def write_events(streams: Streams, folder: Path) -> None:
    """Write batch frames of the three streams as Parquet, with times as local times of UTC; the session's time zone is UTC."""
    for name, frame in streams.frames().items():
        times = {c: F.col(c).cast("timestamp_ntz") for c, kind in frame.dtypes if kind == "timestamp"}
        frame.withColumns(times).write.mode("overwrite").parquet(str(folder / name))


class Oracle:
    """The expected rows of every query over the first batches of events that `write_events` has written."""

    def __init__(self, folder: Path, steps: int) -> None:
        self._base = duckdb.connect()
        for name in ("person", "auction", "bid"):
            files = f"read_parquet('{folder / name}/*.parquet')"
            self._base.execute(f"CREATE VIEW {name} AS SELECT * FROM {files} WHERE step < {steps}")

    def expected(self, query: Query, clock: pa.Table | None = None) -> pa.Table:
        """The rows that a run must have returned in the end, in no order.

        Args:
            query: the query.
            clock: for a query by the clock, the time of each batch of that run: columns ``step`` and ``ran_at``.
        """
        self._base.execute(f"SET VARIABLE watermark = {self._watermark(query.closed_by)}")
        if clock is not None:
            self._base.register("clock", clock)
        return self._base.execute(EXPECTED[query.name]).to_arrow_table()

    def _watermark(self, closed_by: Sequence[str]) -> str:
        if not closed_by:
            return "NULL"
        newest = ", ".join(f"(SELECT max(dateTime) FROM {name})" for name in closed_by)
        return f"least({newest}) - INTERVAL {WATERMARK_MS} MILLISECOND"
