"""Queries as SQL text over temporary views."""

from __future__ import annotations

from pyspark.sql import DataFrame

from conformance.program import Kind
from conformance.programs.aggregation import SALES, WORDS
from conformance.programs.joins import ADS, CLICKS
from conformance.programs.windows import EVENTS

case = Kind("sql")


def _sql(text: str, **views: DataFrame) -> DataFrame:
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    return next(iter(views.values())).sparkSession.sql(text)


@case(WORDS, mode="update", source="SQL reference: GROUP BY and HAVING")
def group_by_having(words: DataFrame) -> DataFrame:
    """Positions, aliases and HAVING."""
    text = """
        SELECT upper(k) AS key, count(*) AS n, sum(v) FILTER (WHERE v > 0) AS positive, max(v) - min(v)
        FROM letters WHERE k <> 'd' GROUP BY 1 HAVING sum(v) > 1
    """
    return _sql(text, letters=words)


@case(SALES, mode="complete", ordered=True, source="SQL reference: GROUP BY ROLLUP with ORDER BY")
def rollup_ordered(sales: DataFrame) -> DataFrame:
    """Subtotals in order."""
    text = """
        SELECT city, item, sum(v) AS total, grouping_id() AS level FROM sales
        GROUP BY ROLLUP (city, item) ORDER BY level DESC, total DESC, city NULLS LAST, item NULLS FIRST LIMIT 6
    """
    return _sql(text, sales=sales)


@case(EVENTS, source="SQL reference: window functions of time with a watermark")
def windows(events: DataFrame) -> DataFrame:
    """A view with a watermark, and windows in SQL."""
    text = "SELECT window.start, k, count(*) AS n FROM events GROUP BY window(ts, '10 seconds'), k"
    return _sql(text, events=events.withWatermark("ts", "10 seconds"))


@case(EVENTS, source="SQL reference: SELECT DISTINCT in a common table expression, then an aggregate")
def common_table_expression(events: DataFrame) -> DataFrame:
    """Each key once per window, then counted, from a common table expression."""
    text = """
        WITH seen AS (SELECT DISTINCT window(ts, '10 seconds') AS w, k FROM events)
        SELECT window(w, '20 seconds').end AS until, count(*) AS keys FROM seen GROUP BY window(w, '20 seconds')
    """
    return _sql(text, events=events.withWatermark("ts", "10 seconds"))


@case(ADS, CLICKS, source="SQL reference: JOIN")
def join(ads: DataFrame, clicks: DataFrame) -> DataFrame:
    """An outer join of two views with a range of times."""
    text = """
        SELECT a.ad, a.cost, c.ts FROM ads a LEFT JOIN clicks c
        ON a.ad = c.id AND c.ts BETWEEN a.at AND a.at + INTERVAL 10 SECONDS
    """
    shown, clicked = ads.withWatermark("at", "10 seconds"), clicks.withWatermark("ts", "5 seconds")
    return _sql(text, ads=shown, clicks=clicked)


@case(WORDS, mode="update", source="SQL reference: subquery in FROM, CASE, LATERAL VIEW")
def nested(words: DataFrame) -> DataFrame:
    """A subquery with exploded rows, grouped by a CASE."""
    text = """
        SELECT CASE WHEN part > 2 THEN 'large' ELSE 'small' END AS size, count(*) AS n, collect_list(part) AS parts
        FROM (SELECT k, part FROM letters LATERAL VIEW explode(array(v, v + 1)) AS part WHERE k < 'd')
        GROUP BY ALL
    """
    return _sql(text, letters=words)


@case(WORDS, mode="update", source="SQL reference: IN with a static subquery")
def static_subquery(words: DataFrame) -> DataFrame:
    """A filter with a subquery over static rows."""
    text = """
        SELECT k, sum(v) AS total FROM letters
        WHERE k IN (SELECT * FROM VALUES ('a'), ('c') AS t(k)) AND v < (SELECT max(id) FROM range(6)) GROUP BY k
    """
    return _sql(text, letters=words)
