"""The queries without state, which binshift leaves to Spark: they run in the same program and show that nothing is lost there."""

from __future__ import annotations

from nexmark.query import Collected

queries = Collected()

queries.add("q0", "every bid", "SELECT auction, bidder, price, dateTime, extra FROM {bid}")

queries.add(
    "q1",
    "every bid, in euros",
    "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, dateTime, extra FROM {bid}",
)

queries.add("q2", "bids for some auctions", "SELECT auction, price FROM {bid} WHERE MOD(auction, 123) = 0")

queries.add(
    "q10",
    "bids with the day and the minute that their files are named after",
    """
    SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS dt,
      DATE_FORMAT(dateTime, 'HH:mm') AS hm
    FROM {bid}
    """,
)

queries.add(
    "q13",
    "bids joined with a static table of 10,000 rows",
    """
    SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
    FROM {bid} B JOIN (SELECT id AS key, CAST(id AS STRING) AS value FROM range(10000)) S ON MOD(B.auction, 10000) = S.key
    """,
)

queries.add(
    "q14",
    "dear bids with the part of the day, and the number of letters c in their extra text",
    """
    SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
      CASE
        WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
        WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
        ELSE 'otherTime'
      END AS bidTimeType,
      dateTime, extra, CAST(LENGTH(extra) - LENGTH(REPLACE(extra, 'c', '')) AS BIGINT) AS c_counts
    FROM {bid} WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
)

queries.add(
    "q21",
    "bids with the id of their channel",
    """
    SELECT auction, bidder, price, channel,
      CASE LOWER(channel)
        WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
      END AS channel_id
    FROM {bid}
    WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) <> ''
      OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
    """,
)

queries.add(
    "q22",
    "bids with the parts of their url",
    """
    SELECT auction, bidder, price, channel, SPLIT(url, '/')[3] AS dir1, SPLIT(url, '/')[4] AS dir2, SPLIT(url, '/')[5] AS dir3
    FROM {bid}
    """,
)
