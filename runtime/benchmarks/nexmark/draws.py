"""Random numbers as SQL expressions, and what is drawn with them: texts, prices, times, and keys of which some are hot."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime

from nexmark.config import AUCTIONS, FIRST_ID, ROUND, SHUFFLE, Config

ID_LEAD = 10
"""Ids that do not exist yet and are used nevertheless."""
HOT_BATCH = 100
"""One person and one auction in so many are hot, one after the other."""
POOL_BYTES = 4096
POOL = bytes(random.Random(SHUFFLE).choices(range(ord("a"), ord("z") + 1), k=POOL_BYTES)).hex()
"""The text that all strings are parts of, as hexadecimal digits."""
START_MS = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1000)
LAST_PERSON = f"n div {ROUND}"
"""The newest person at event n, counted from 0."""
LAST_AUCTION = f"(n div {ROUND} * {AUCTIONS} + least(n % {ROUND}, {AUCTIONS}) - 1)"
"""The newest auction at event n, counted from 0."""
TIME_DRAWS = (20, 21)


@dataclass(frozen=True)
class Draws:
    """Expressions with random numbers of the event, or of what ``of`` names; a first argument j is the number's number."""

    config: Config
    of: str = "n"

    def hash(self, j: int) -> str:
        """A random number of 64 bits."""
        return f"xxhash64({self.of}, {self.config.seed}L, {j})"

    def below(self, j: int, bound: str) -> str:
        """A random number from 0 to the bound, without it."""
        return f"pmod({self.hash(j)}, {bound})"

    def one_of(self, j: int, values: tuple[str, ...]) -> str:
        """One of these texts."""
        texts = ", ".join(f"'{value}'" for value in values)
        return f"element_at(array({texts}), CAST(1 + {self.below(j, str(len(values)))} AS INT))"

    def text(self, j: int, length: str, longest: int) -> str:
        """A text of this length."""
        start = self.below(j, str(POOL_BYTES - longest))
        return f"CAST(substring(X'{POOL}', CAST(1 + {start} AS INT), CAST({length} AS INT)) AS STRING)"

    def short_text(self, j: int, longest: int) -> str:
        """A text of at least three letters and less than ``longest``; takes two random numbers."""
        return self.text(j, f"3 + {self.below(j + 1, str(longest - 3))}", longest)

    def long_text(self, j: int, least: int, most: int) -> str:
        """A text of ``least`` letters up to ``most``, without that; takes two random numbers."""
        return self.text(j, f"{least} + {self.below(j + 1, str(most - least))}", most)

    def digits(self, j: int) -> str:
        """Four digits."""
        return f"lpad(CAST({self.below(j, '10000')} AS STRING), 4, '0')"

    def price(self, j: int) -> str:
        """From 100 to 100,000,000, as often between 10 and 100 times of that as between 100 and 1,000 times."""
        unit = f"shiftrightunsigned({self.hash(j)}, 11) / {float(1 << 53)!r}D"
        return f"CAST(round(power(10.0D, 6 * ({unit})) * 100) AS BIGINT)"

    def time(self) -> str:
        """Milliseconds since 1970."""
        due = f"{START_MS} + n * 1000 div {self.config.rate}"
        if not self.config.delayed_share:
            return f"({due})"
        chosen, delay = (self.below(j, str(bound)) for j, bound in zip(TIME_DRAWS, self._delays(), strict=True))
        return f"({due} - if({chosen} = 0, {delay}, 0))"

    def _delays(self) -> tuple[int, int]:
        return self.config.delayed_share, self.config.delay_ms

    def person(self, j: int, ratio: int, place: int) -> str:
        """The hot person, who is at this place among a hundred, or an active one or one to come; takes two random numbers."""
        hot = f"{LAST_PERSON} div {HOT_BATCH} * {HOT_BATCH} + {place}"
        active = f"least({LAST_PERSON} + 1, {self.config.active_people})"
        other = f"{LAST_PERSON} + 1 - {active} + {self.below(j + 1, f'{active} + {ID_LEAD}')}"
        return f"({FIRST_ID} + if({self.below(j, str(ratio))} > 0, {hot}, {other}))"

    def auction(self, j: int) -> str:
        """The hot auction, or one in flight or one to come; takes two random numbers."""
        hot = f"{LAST_AUCTION} div {HOT_BATCH} * {HOT_BATCH}"
        oldest = f"greatest({LAST_AUCTION} - {self.config.in_flight_auctions}, 0)"
        other = f"{oldest} + {self.below(j + 1, f'{LAST_AUCTION} - {oldest} + {1 + ID_LEAD}')}"
        return f"({FIRST_ID} + if({self.below(j, str(self.config.hot_auction_ratio))} > 0, {hot}, {other}))"
