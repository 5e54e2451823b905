"""The client of a simulated driver's control API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim_runtime import Query

from binshift_operator.driver_client import DriverClient
from binshift_operator.errors import Forbidden, Unreachable


class SimControl(DriverClient):
    """The client, answered by whatever query there is."""

    def __init__(self, token: str, query: Callable[[], Query | None], wrote: Callable[[str], None], keys: str) -> None:
        object.__setattr__(self, "url", "http://driver")
        object.__setattr__(self, "token", token)
        object.__setattr__(self, "_extra", (query, wrote, keys))

    __slots__ = ("_extra",)
    _extra: tuple[Callable[[], Query | None], Callable[[str], None], str]

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        query, wrote, keys = self._extra
        found = query()
        if found is None:
            raise Unreachable("no answer")
        if found.keys != keys:
            raise Forbidden("another token")
        answer = self._answer(found, method, path, body)
        if method != "GET":
            wrote(f"{method} {path}")
        return answer

    def _answer(self, query: Query, method: str, path: str, body: Any) -> Any:
        return query.answer(method, path, body)
