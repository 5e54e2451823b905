"""One query of the suite, and the collection of all. Knows no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame

from nexmark.events import Streams

Mode = Literal["append", "update"]


@dataclass(frozen=True, kw_only=True)
class Query:
    """A query.

    Attributes:
        name: ``q5``, or ``q5_lists`` for a second form of the same question.
        title: the question, in one line.
        build: makes the frame from the three streams, on plain Spark and on binshift.
        mode: the output mode.
        state: the stateful operators on its way, in their order; none for a query without state.
        key: columns; of all rows with the same values in them, those of the newest batch count. None if every row counts.
        closed_by: the streams whose watermark closes its windows and auctions; none if every event counts at once.
        by_clock: the rows depend on the time of the batches.
    """

    name: str
    title: str
    build: Callable[[Streams], DataFrame]
    mode: Mode
    state: tuple[str, ...]
    key: tuple[str, ...]
    closed_by: tuple[str, ...]
    by_clock: bool

    @property
    def needs_processor(self) -> bool:
        """Whether it has an operator of `transformWithState`."""
        return "transformWithState" in self.state


@dataclass
class Collected:
    """Queries by name; `add` registers one."""

    queries: dict[str, Query] = field(default_factory=dict)

    def add(
        self,
        name: str,
        title: str,
        build: str | Callable[[Streams], DataFrame],
        *,
        mode: Mode = "append",
        state: tuple[str, ...] = (),
        key: tuple[str, ...] = (),
        closed_by: tuple[str, ...] = (),
        by_clock: bool = False,
    ) -> None:
        """Register a query, as a function or as SQL text with ``{person}``, ``{auction}`` and ``{bid}`` for the streams.

        Raises:
            ValueError: the name is taken, or a query in update mode has no key.
        """
        if name in self.queries:
            raise ValueError(f"there are two queries {name!r}; give the second form a name of its own")
        if mode == "update" and not key:
            raise ValueError(
                f"{name}: output mode 'update' without a key; name the columns of which the newest rows count"
            )
        made = _by_sql(build) if isinstance(build, str) else build
        self.queries[name] = Query(
            name=name,
            title=title,
            build=made,
            mode=mode,
            state=state,
            key=key,
            closed_by=closed_by,
            by_clock=by_clock,
        )

    def __iter__(self) -> Iterator[Query]:
        return iter(self.queries.values())


def merged(*parts: Collected) -> Mapping[str, Query]:
    """All queries by name, in the order of their numbers.

    Raises:
        ValueError: two have the same name.
    """
    found = sorted((query for part in parts for query in part), key=lambda query: (_number(query.name), query.name))
    if len({query.name for query in found}) < len(found):
        raise ValueError(f"a name is used twice: {', '.join(query.name for query in found)}")
    return {query.name: query for query in found}


def _number(name: str) -> int:
    return int(name.removeprefix("q").partition("_")[0])


def _by_sql(text: str) -> Callable[[Streams], DataFrame]:
    def build(streams: Streams) -> DataFrame:
        used: dict[str, Any] = {name: frame for name, frame in streams.frames().items() if f"{{{name}}}" in text}
        return streams.bid.sparkSession.sql(text, **used)

    return build
