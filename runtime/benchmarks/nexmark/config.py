"""The choices of a generator of events, and the constants that all of them have."""

from __future__ import annotations

from dataclasses import dataclass

ROUND = 50
"""Events of one round: one person, three auctions, 46 bids."""
AUCTIONS = 3
FIRST_ID = 1000
SHUFFLE = 953
"""Prime: event n of a group takes place n * 953 in it."""


@dataclass(frozen=True)
class Config:
    """The choices of a generator; the defaults are those of the original unless noted.

    Attributes:
        seed: of all random numbers.
        rate: events in a second of event time; 10,000 in the original.
        in_flight_auctions: auctions that are open at the same time, on average.
        active_people: the newest persons who sell and bid.
        hot_auction_ratio: 1 - 1/ratio of all bids are for the hot auction; likewise sellers and bidders.
        hot_seller_ratio: of auctions.
        hot_bidder_ratio: of bids.
        group: numbers are shuffled in groups of so many; 1 leaves events in order. No multiple of 953.
        delayed_share: one event in so many is delayed; 0 for none.
        delay_ms: the longest delay.

    Raises:
        ValueError: a number is out of its range.
    """

    seed: int = 1
    rate: int = 1000
    in_flight_auctions: int = 100
    active_people: int = 1000
    hot_auction_ratio: int = 2
    hot_seller_ratio: int = 4
    hot_bidder_ratio: int = 4
    group: int = 1
    delayed_share: int = 0
    delay_ms: int = 3000

    def __post_init__(self) -> None:
        for name in ("rate", "in_flight_auctions", "active_people", "hot_auction_ratio", "group", "delay_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it has to be 1 or more")
        if self.group % SHUFFLE == 0:
            raise ValueError(f"group is {self.group}; a multiple of {SHUFFLE} would give numbers twice")
        if self.delayed_share < 0:
            raise ValueError(f"delayed_share is {self.delayed_share}; it is one in so many, or 0 for none")

    @property
    def lifetime_ms(self) -> int:
        """The mean time between an auction's begin and its end."""
        return max(1, self.in_flight_auctions * ROUND * 1000 // (AUCTIONS * self.rate))
