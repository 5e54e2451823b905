"""The data of a Prometheus, read over its HTTP API: lines over a span of time. Knows nothing of dashboards."""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CALL_SECONDS_MAX = 60.0


class Unanswered(Exception):
    """Prometheus does not answer, or refuses; the message has the query and the reason."""


@dataclass(frozen=True)
class Span:
    """A span of time and the distance of its points, all in seconds; ``start`` and ``end`` since 1970."""

    start: float
    end: float
    step: float

    @property
    def times(self) -> list[float]:
        """The times of the requested points."""
        return [
            self.start + number * self.step for number in range(int((self.end - self.start) / self.step + 1e-9) + 1)
        ]


@dataclass(frozen=True)
class Line:
    """One series: a value for each of the span's times, nan where there is none."""

    labels: Mapping[str, str]
    values: Sequence[float]

    @property
    def last(self) -> float:
        """Its newest value; nan if it has none."""
        return next((each for each in reversed(self.values) if not math.isnan(each)), math.nan)


@dataclass(frozen=True)
class Prometheus:
    """A server.

    Attributes:
        url: where it is, without a path.
    """

    url: str

    def lines(self, expression: str, span: Span) -> list[Line]:
        """All series of an expression, over a span.

        Raises:
            Unanswered: it does not answer, or refuses.
        """
        parameters = {"query": expression, "start": f"{span.start}", "end": f"{span.end}", "step": f"{span.step}"}
        return [Line(each["metric"], placed(each["values"], span)) for each in self._result("query_range", parameters)]

    def at(self, expression: str, moment: float) -> list[Line]:
        """The same at one moment. Errors as `lines`."""
        parameters = {"query": expression, "time": f"{moment}"}
        return [Line(each["metric"], [float(each["value"][1])]) for each in self._result("query", parameters)]

    def _result(self, call: str, parameters: Mapping[str, str]) -> Any:
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{call}", body, CALL_SECONDS_MAX) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as refusal:
            body_text = refusal.read().decode(errors="replace")[:500]
            raise Unanswered(f"{self.url} refuses {parameters['query']!r}: {body_text}") from refusal
        except (OSError, KeyError, ValueError) as error:
            raise Unanswered(f"{self.url} does not answer {parameters['query']!r}: {error}") from error


def placed(points: Sequence[tuple[float, str]], span: Span) -> list[float]:
    """Values at the span's times, nan where there are none.

    >>> placed([(10.0, "1"), (30.0, "3")], Span(10.0, 30.0, 10.0))
    [1.0, nan, 3.0]
    """
    found = {round((moment - span.start) / span.step): float(value) for moment, value in points}
    return [found.get(number, math.nan) for number in range(len(span.times))]
