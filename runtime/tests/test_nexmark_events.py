"""The NEXMark generator: the same events in any partitioning and in any order of numbers, with the ratios and keys of the original."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from benchmark_scripts import importable
from pyspark.sql import DataFrame, SparkSession

with importable():
    from nexmark.config import Config
    from nexmark.events import Streams, streams

EVENTS = 10_000
CONFIG = Config(seed=7)


def events(spark: SparkSession, config: Config, partitions: int = 2, first: int = 0, last: int = EVENTS) -> Streams:
    """The events of a range of numbers."""
    return streams(spark.range(first, last, numPartitions=partitions).withColumnRenamed("id", "n"), config)


def rows(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    """The rows as a multiset."""
    return Counter(map(tuple, frame.collect()))


def times(frame: DataFrame) -> list[int]:
    """The event times in milliseconds, in the order of the rows."""
    return [row[0] for row in frame.selectExpr("unix_millis(dateTime)").collect()]


def test_partitions_and_batches_do_not_change_an_event(spark: SparkSession) -> None:
    """One partition, seven partitions, and two batches one after the other give the same rows."""
    config = replace(CONFIG, group=100, delayed_share=10)
    for name, frame in events(spark, config, partitions=1).frames().items():
        expected = rows(frame)
        assert rows(events(spark, config, partitions=7).frames()[name]) == expected
        halves = [events(spark, config, 3, *part).frames()[name] for part in ((0, 4000), (4000, EVENTS))]
        assert rows(halves[0]) + rows(halves[1]) == expected


def test_a_seed_makes_other_events(spark: SparkSession) -> None:
    """Prices differ with another seed, and ids and times do not."""
    one, other = (events(spark, replace(CONFIG, seed=seed)).auction for seed in (1, 2))
    assert rows(one.select("id", "dateTime")) == rows(other.select("id", "dateTime"))
    assert rows(one.select("initialBid")) != rows(other.select("initialBid"))


def test_there_are_three_auctions_and_46_bids_for_a_person(spark: SparkSession) -> None:
    """The ratios hold, also if numbers are shuffled, and ids of persons and auctions have no gap."""
    made = events(spark, replace(CONFIG, group=100))
    assert [frame.count() for frame in made.frames().values()] == [EVENTS // 50, EVENTS // 50 * 3, EVENTS // 50 * 46]
    for frame in (made.person, made.auction):
        ids = [row.id for row in frame.select("id").collect()]
        assert sorted(ids) == list(range(1000, 1000 + len(ids)))


def test_hot_keys_have_their_share(spark: SparkSession) -> None:
    """Half of the bids are for a hot auction, three quarters of the bidders and sellers are hot; all of them are one in a hundred."""
    made = events(spark, CONFIG)
    shares = {
        "auction": made.bid.where("(auction - 1000) % 100 = 0").count() / made.bid.count(),
        "bidder": made.bid.where("(bidder - 1000) % 100 = 1").count() / made.bid.count(),
        "seller": made.auction.where("(seller - 1000) % 100 = 0").count() / made.auction.count(),
    }
    assert shares == pytest.approx({"auction": 0.51, "bidder": 0.75, "seller": 0.75}, abs=0.04)


def test_a_bid_is_for_an_auction_in_flight_or_one_of_the_next_ten(spark: SparkSession) -> None:
    """No bid is for an auction older than the hot one or than those in flight."""
    found = events(spark, replace(CONFIG, in_flight_auctions=20), first=5000).bid
    newest = 1000 + EVENTS // 50 * 3
    assert found.where(f"auction > {newest + 10}").count() == 0
    assert found.where("auction < 1000 + 5000 div 50 * 3 - 100").count() == 0


def test_events_are_in_order_unless_shuffled(spark: SparkSession) -> None:
    """With groups of one, times never decrease; a group of 100 numbers is shuffled, and the next one begins after it."""
    ordered = times(events(spark, CONFIG, partitions=1).bid)
    assert ordered == sorted(ordered)
    config = replace(CONFIG, group=100)
    shuffled = times(events(spark, config, partitions=1, last=100).bid)
    assert shuffled != sorted(shuffled)
    assert max(shuffled) < min(times(events(spark, config, first=100, last=200).bid))


def test_one_event_in_ten_is_delayed(spark: SparkSession) -> None:
    """The others keep their time; no delay is longer than the given one."""
    before = times(events(spark, CONFIG, partitions=1).bid)
    after = times(events(spark, replace(CONFIG, delayed_share=10, delay_ms=500), partitions=1).bid)
    delays = [one - other for one, other in zip(before, after, strict=True)]
    assert sum(each > 0 for each in delays) / len(delays) == pytest.approx(0.1, abs=0.01)
    assert min(delays) == 0
    assert max(delays) < 500


def test_auctions_last_as_long_as_the_number_in_flight_asks(spark: SparkSession) -> None:
    """The mean time between begin and end is that in which so many auctions begin."""
    config = replace(CONFIG, in_flight_auctions=60)
    lasts = "avg(unix_millis(expires) - unix_millis(dateTime))"
    assert events(spark, config).auction.selectExpr(lasts).collect()[0][0] == pytest.approx(1000, rel=0.1)
    assert config.lifetime_ms == 1000


def test_rate_is_of_event_time(spark: SparkSession) -> None:
    """Twice the rate gives the same events in half of the event time."""
    slow, fast = (times(events(spark, replace(CONFIG, rate=rate)).person) for rate in (1000, 2000))
    assert max(slow) - min(slow) == 2 * (max(fast) - min(fast))


def test_sizes_are_those_of_the_original(spark: SparkSession) -> None:
    """Prices lie between 1 and 1,000,000 dollars; extra texts fill a bid up to about 100 bytes, an auction to 500."""
    made = events(spark, CONFIG)
    least, most = made.bid.selectExpr("min(price)", "max(price)").collect()[0]
    assert 100 <= least < 200
    assert 50_000_000 < most <= 100_000_000
    assert made.bid.selectExpr("avg(length(extra))").collect()[0][0] == pytest.approx(68, abs=1)
    assert made.auction.selectExpr("avg(length(extra))").collect()[0][0] == pytest.approx(391, abs=8)


@pytest.mark.parametrize("wrong", [{"rate": 0}, {"group": 953}, {"group": 0}, {"delayed_share": -1}])
def test_a_number_out_of_range_is_named(wrong: dict[str, int]) -> None:
    """The message has the name of the choice."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Config(**wrong)
