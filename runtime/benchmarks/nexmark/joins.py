"""The queries with joins of two streams, some of them of aggregates, and their second forms without a join or without a processor.

Q7 compares with the last microsecond of a window (`window_time`), the column that has a watermark, and adds the microsecond again.
"""

from __future__ import annotations

from nexmark.query import Collected

queries = Collected()

queries.add(
    "q3",
    "persons of three states who sell in category 10",
    """
    SELECT P.name, P.city, P.state, A.id
    FROM {auction} A JOIN {person} P ON A.seller = P.id
    WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')
    """,
    state=("join",),
)

COUNTED = """
    SELECT auction, COUNT(*) AS num, window FROM {bid} GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
"""

queries.add(
    "q5",
    "the auctions with the most bids of the last ten seconds, every two seconds",
    f"""
    WITH counts AS ({COUNTED}), most AS (SELECT MAX(num) AS maxn, window FROM counts GROUP BY window)
    SELECT counts.auction, counts.num, counts.window.end AS endtime
    FROM counts JOIN most ON counts.window = most.window AND counts.num >= most.maxn
    """,
    state=("aggregate", "aggregate", "join"),
    closed_by=("bid",),
)

queries.add(
    "q5_lists",
    "the same without a join: the second aggregation keeps the list",
    f"""
    WITH counts AS ({COUNTED}),
      lists AS (SELECT MAX(num) AS maxn, COLLECT_LIST(STRUCT(auction, num)) AS found, window FROM counts GROUP BY window)
    SELECT best.auction, best.num, window.end AS endtime
    FROM lists LATERAL VIEW EXPLODE(FILTER(found, each -> each.num >= maxn)) AS best
    """,
    state=("aggregate", "aggregate"),
    closed_by=("bid",),
)

queries.add(
    "q7",
    "the highest bids of every ten seconds",
    """
    WITH most AS (
      SELECT maxprice, window_time(window) AS at
      FROM (SELECT MAX(price) AS maxprice, window FROM {bid} GROUP BY window(dateTime, '10 seconds'))
    )
    SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
    FROM {bid} B JOIN most ON B.price = most.maxprice
      AND B.dateTime >= most.at - INTERVAL '9.999999' SECOND AND B.dateTime <= most.at + INTERVAL '0.000001' SECOND
    """,
    state=("aggregate", "join"),
    closed_by=("bid",),
)

queries.add(
    "q8",
    "persons who sell within the ten seconds in which they are new",
    """
    WITH persons AS (SELECT id, name, window FROM {person} GROUP BY id, name, window(dateTime, '10 seconds')),
      sellers AS (SELECT seller, window FROM {auction} GROUP BY seller, window(dateTime, '10 seconds'))
    SELECT persons.id, persons.name, persons.window.start AS stime
    FROM persons JOIN sellers ON persons.id = sellers.seller AND persons.window = sellers.window
    """,
    state=("aggregate", "aggregate", "join"),
    closed_by=("person", "auction"),
)

queries.add(
    "q9_join",
    "the highest bid of each auction so far, by a join and an aggregation",
    """
    SELECT id, itemName, seller, category, expires, best.bidder, best.price, best.bid_dateTime, best.bid_extra
    FROM (
      SELECT A.id, FIRST(A.itemName) AS itemName, FIRST(A.seller) AS seller, FIRST(A.category) AS category,
        FIRST(A.expires) AS expires,
        MAX_BY(
          STRUCT(B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra),
          STRUCT(B.price, -UNIX_MICROS(B.dateTime), B.extra)
        ) AS best
      FROM {auction} A JOIN {bid} B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
      GROUP BY A.id
    )
    """,
    mode="update",
    state=("join", "aggregate"),
    key=("id",),
)

queries.add(
    "q20",
    "bids for auctions of category 10, with the auction",
    """
    SELECT auction, bidder, price, channel, url, B.dateTime AS bid_dateTime, B.extra AS bid_extra, itemName, description,
      initialBid, reserve, A.dateTime AS auction_dateTime, expires, seller, category, A.extra AS auction_extra
    FROM {bid} B JOIN {auction} A ON B.auction = A.id
    WHERE A.category = 10
    """,
    state=("join",),
)
