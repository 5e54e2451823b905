"""Has a worker's bins moved away before its pod stops: the preStop hook. ``python -m binshift.hosting.pod.drain``

Requests the drain once, then watches the migration until it ends. It gives up at once if the driver refuses (the stream is
stopping, or no other worker would remain), if there is no driver any more, if one has not answered for half a minute, and at
its deadline: other workers bring up the remaining bins from the log. It never fails, as a hook that fails only delays the pod.
Standard library only, so that it starts fast.

| variable | meaning | default |
|---|---|---|
| ``BINSHIFT_CONTROL_URL`` | the driver's control API | |
| ``BINSHIFT_CONTROL_CA`` | file with the authority of the driver's certificate, if the address is of https | |
| ``BINSHIFT_DRAIN_TOKEN`` | opens the drain, and nothing else | |
| ``BINSHIFT_SLOT`` | the worker | the number at the end of ``BINSHIFT_HOST``'s or the pod's name |
| ``BINSHIFT_DRAIN_SECONDS`` | how long it may take | 100 |
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

SECONDS_MAX: Final = 100.0
"""Less than a pod's grace period (120 s), which includes the end of the worker itself."""
ANSWER_SECONDS_MAX: Final = 10.0
SILENT_SECONDS_MAX: Final = 30.0
"""How long it waits for a busy driver; a restarted one has no record of the drain."""
ANSWER_BYTES_MAX: Final = 1 << 20
POLL_SECONDS: Final = 0.5
ENDED: Final = frozenset({"settled", "cancelled", "failed"})
"""Phases of a migration that is over."""


def main(environment: Mapping[str, str], write: Callable[[str], None]) -> int:
    """Drain this pod's worker; always returns 0."""
    try:
        write(drain(environment, time.monotonic, time.sleep))
    except Exception as error:  # a failing hook is of no use: the worker stops now, and the log has its bins
        write(f"not drained: {type(error).__name__}: {error}")
    return 0


def drain(environment: Mapping[str, str], clock: Callable[[], float], sleep: Callable[[float], None]) -> str:
    """Request a drain and watch it; returns a text with its result.

    Raises:
        HTTPError, OSError, ValueError, KeyError: no answer, or not one of the control API.
    """
    slot, url, token = slot_of(environment), environment.get("BINSHIFT_CONTROL_URL", ""), "BINSHIFT_DRAIN_TOKEN"
    if slot is None or not url or not environment.get(token):
        return f"not drained: BINSHIFT_CONTROL_URL, {token} or BINSHIFT_SLOT is missing"
    until = clock() + float(environment.get("BINSHIFT_DRAIN_SECONDS") or SECONDS_MAX)
    api = _Api(url.rstrip("/"), environment[token], environment.get("BINSHIFT_CONTROL_CA"))
    try:
        migration = api.json("POST", f"/v1/workers/{slot}/drain")["migration"]
    except HTTPError as refused:
        return f"worker {slot} is not drained: {_reason(refused)}"
    heard = clock()
    while migration is not None and migration["phase"] not in ENDED:
        if clock() >= until:
            return f"worker {slot} is not drained in time: {_progress(migration)}; the log has what is left"
        if clock() - heard >= SILENT_SECONDS_MAX:
            return f"worker {slot} is not drained, as the driver answers no more: {_progress(migration)}; the log has what is left"
        sleep(min(POLL_SECONDS, max(0.0, until - clock())))
        if (answer := api.again(migration)) is not None:
            migration, heard = answer, clock()
    return f"worker {slot} is drained: {_progress(migration)}" if migration else f"worker {slot} had no bins"


def slot_of(environment: Mapping[str, str]) -> int | None:
    """This pod's worker; None if it is not known.

    >>> slot_of({"BINSHIFT_SLOT": "3"}), slot_of({"HOSTNAME": "clicks-executor-11"}), slot_of({"HOSTNAME": "laptop"})
    (3, 11, None)
    >>> slot_of({"BINSHIFT_HOST": "clicks-executor-2.clicks-executor", "HOSTNAME": "x"})
    2
    """
    if environment.get("BINSHIFT_SLOT"):
        return int(environment["BINSHIFT_SLOT"])
    for variable in ("BINSHIFT_HOST", "HOSTNAME"):
        found = re.fullmatch(r"[^.]*-(\d+)(\..*)?", environment.get(variable, ""))
        if found:
            return int(found[1])
    return None


class _Api:
    """The control API, as far as a drain needs it; without proxies, as the driver is in the same cluster."""

    def __init__(self, url: str, token: str, authority: str | None) -> None:
        self._url, self._token = url, token
        secure = []
        if authority:
            context = ssl.create_default_context(cafile=authority)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the authority can be an intermediate one
            secure.append(HTTPSHandler(context=context))
        self._opener = build_opener(ProxyHandler({}), *secure)

    def json(self, method: str, path: str) -> Any:
        """What a call answers."""
        request = Request(self._url + path, method=method, headers={"Authorization": f"Bearer {self._token}"})
        with self._opener.open(request, timeout=ANSWER_SECONDS_MAX) as answer:
            return json.loads(answer.read(ANSWER_BYTES_MAX))

    def again(self, migration: Any) -> Any:
        """A migration as it is now; None if the driver is too busy to answer.

        Raises:
            HTTPError, OSError: access is refused, or there is no driver: its address has no listener, or it has no address.
        """
        try:
            return self.json("GET", f"/v1/migrations/{migration['id']}")
        except HTTPError as refused:
            if refused.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
        except OSError as silent:
            if not _passing(getattr(silent, "reason", silent)):
                raise
        return None


def _passing(trouble: object) -> bool:
    """Whether a driver may exist anyway: it is slow, or the name service is briefly unavailable."""
    return isinstance(trouble, TimeoutError) or (
        isinstance(trouble, socket.gaierror) and trouble.errno == socket.EAI_AGAIN
    )


def _reason(refused: HTTPError) -> str:
    with contextlib.suppress(ValueError, TypeError, KeyError, OSError):
        return str(json.loads(refused.read(ANSWER_BYTES_MAX))["message"])
    return f"the driver answered {refused.code}"


def _progress(migration: Mapping[str, Any]) -> str:
    moved, total = migration.get("binsMoved"), migration.get("binsTotal")
    return f"migration {migration['id']} is {migration['phase']}, {moved} of {total} bins moved"


def _write_line(line: str) -> None:
    """In a pod, to the log of the container's first process, as a hook's own output goes nowhere."""
    text = f"binshift drain: {line}\n"
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        with contextlib.suppress(OSError), open("/proc/1/fd/2", "w", encoding="utf-8") as out:
            out.write(text)
            return
    sys.stderr.write(text)


if __name__ == "__main__":
    sys.exit(main({"HOSTNAME": socket.gethostname(), **os.environ}, _write_line))
