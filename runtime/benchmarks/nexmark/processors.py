# ruff: noqa: N802, N803 (the names are PySpark's)
"""The processors of `transformWithState`: plain PySpark, unchanged on every engine. Times are milliseconds since 1970.

Rows with the same key come in any order within a batch, and every processor puts them in order itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

CLOSED = (
    "id bigint, itemName string, seller bigint, category bigint, expires_ms bigint, bidder bigint, price bigint, "
    "bid_ms bigint, bid_extra string"
)
Closed = Row("id", "itemName", "seller", "category", "expires_ms", "bidder", "price", "bid_ms", "bid_extra")
AVERAGE_OF_CATEGORY = "category bigint, average bigint"
AVERAGE_OF_SELLER = "seller bigint, id bigint, avg_price bigint"
LAST_AUCTIONS = 11
"""The current one and the ten before it, as in the original."""
BEST_BIDS = 10
RANKED = "auction bigint, bidder bigint, price bigint, channel string, url string, bid_ms bigint, extra string, rank_number bigint"
Ranked = Row("auction", "bidder", "price", "channel", "url", "bid_ms", "extra", "rank_number")

Bid = tuple[Any, ...]
"""Time, bidder, price, extra text; and what else is kept of it."""


def preference(bid: Bid) -> tuple[int, int, str]:
    """A higher price wins, then an earlier time, then the extra text."""
    return bid[2], -bid[0], bid[3]


class ClosedAuctions(StatefulProcessor):
    """By auction: its highest bid, emitted when the watermark has passed its end; nothing for an auction without bids.

    A bid may come before its auction. It waits until the watermark passes its own time: an auction that begins before has come by then.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Three variables: the auction, its best bid, and bids that wait for it."""
        self._handle = handle
        auction = "itemName string, seller bigint, category bigint, begins bigint, expires bigint"
        bid = "at bigint, bidder bigint, price bigint, extra string"
        self._auction = handle.getValueState("auction", auction)
        self._best = handle.getValueState("best", bid)
        self._waiting = handle.getListState("waiting", bid)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Keep the best bid; emits nothing."""
        auction, bids = self._auction.get(), []
        for row in rows:
            if row.bidder is None:
                auction = (row.itemName, row.seller, row.category, row.at, row.expires)
                self._auction.update(auction)
                self._handle.registerTimer(row.expires)
                bids += [tuple(each) for each in self._waiting.get()]
                self._waiting.clear()
            else:
                bids.append((row.at, row.bidder, row.price, row.extra))
        if auction is not None:
            self._keep([bid for bid in bids if auction[3] <= bid[0] <= auction[4]])
        elif bids:
            self._waiting.appendList(bids)
            self._handle.registerTimer(max(bid[0] for bid in bids))
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """The auction has ended, or bids without an auction are too old to have one."""
        now, auction = expiredTimerInfo.getExpiryTimeInMs(), self._auction.get()
        if auction is None:
            left = [tuple(each) for each in self._waiting.get() if each[0] > now]
            self._waiting.clear()
            if left:
                self._waiting.appendList(left)
        elif auction[4] <= now:
            best = self._best.get()
            self._auction.clear()
            self._best.clear()
            if best is not None:
                yield Closed(key[0], auction[0], auction[1], auction[2], auction[4], best[1], best[2], best[0], best[3])

    def _keep(self, bids: list[Any]) -> None:
        if not bids:
            return
        best, before = max(bids, key=preference), self._best.get()
        if before is None or preference(best) > preference(tuple(before)):
            self._best.update(best)


class CategoryAverage(StatefulProcessor):
    """By category: the average of all prices so far, emitted whenever there is a new one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One variable: sum and number."""
        self._total = handle.getValueState("total", "total bigint, n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Add the prices."""
        total, n = self._total.get() or (0, 0)
        for row in rows:
            total, n = total + row.price, n + 1
        self._total.update((total, n))
        yield Row(category=key[0], average=total // n)


class SellerAverage(StatefulProcessor):
    """By seller: after each closed auction the average price of the last eleven, in the order in which they ended."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One variable: the last prices, oldest first."""
        self._prices = handle.getListState("prices", "price bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """A row for each auction."""
        prices = [each[0] for each in self._prices.get()]
        made = []
        for row in sorted(rows, key=lambda row: (row.expires_ms, row.id)):
            prices = [*prices, row.price][-LAST_AUCTIONS:]
            made.append(Row(seller=key[0], id=row.id, avg_price=sum(prices) // len(prices)))
        self._prices.put([(price,) for price in prices])
        return iter(made)


class BestBids(StatefulProcessor):
    """By auction: its ten best bids with their ranks, emitted whenever they have changed."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One variable: the best bids, best first."""
        self._best = handle.getListState(
            "best", "at bigint, bidder bigint, price bigint, extra string, channel string, url string"
        )

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """The ten best of the stored bids and the new ones."""
        before = [tuple(each) for each in self._best.get()]
        new = [(row.at, row.bidder, row.price, row.extra, row.channel, row.url) for row in rows]
        best = sorted(before + new, key=preference, reverse=True)[:BEST_BIDS]
        if best == before:
            return iter(())
        self._best.put(best)
        return iter(
            Ranked(key[0], bid[1], bid[2], bid[4], bid[5], bid[0], bid[3], rank) for rank, bid in enumerate(best, 1)
        )
