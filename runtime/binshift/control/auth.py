"""The door of the API: no request passes without a token that allows it, or with a body that is too large.

It stands before FastAPI, so that a body is not even read for somebody who may not send it. It is closed by default: every
path needs the admin token unless it is listed as open or belongs to a drain. Health and metrics say nothing a caller could
misuse, and those who ask (the kubelet, Prometheus) often have no token.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from binshift.control.problems import problem
from binshift.control.tokens import ADMIN_VARIABLE, DRAIN_VARIABLE, Permission, TokenCheck, Tokens, bearer

BODY_BYTES_MAX: Final = 64 * 1024
"""Largest body of a request: a target that names a thousand workers takes 10 KiB."""

OPEN: Final = frozenset({"/healthz", "/readyz", "/metrics", "/openapi.json"})
"""Readable without a token."""

DRAIN: Final = frozenset(
    {("POST", re.compile(r"/v1/workers/[^/]+/drain")), ("GET", re.compile(r"/v1/migrations/[^/]+"))}
)
"""What a pod that is about to go needs: to be drained, and to see how far that is."""


def permission(method: str, path: str) -> Permission | None:
    """What a request needs; None: nothing.

    >>> permission("GET", "/healthz"), permission("POST", "/healthz"), permission("POST", "/v1/workers/3/drain").name
    (None, <Permission.ADMIN: 1>, 'DRAIN')
    """
    if method in {"GET", "HEAD"} and path in OPEN:
        return None
    drains = any(method == allowed and form.fullmatch(path) for allowed, form in DRAIN)
    return Permission.DRAIN if drains else Permission.ADMIN


class AuthMiddleware:
    """ASGI middleware.

    Args:
        app: what is guarded.
        tokens: who is let in.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request pass, or answer it here."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http", "the server speaks no websockets"
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        body = await _read(receive, BODY_BYTES_MAX)
        if body is None:
            message = f"a body may have {BODY_BYTES_MAX} bytes at most"
            await problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "BodyTooLarge", message)(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        needed = permission(scope["method"], scope["path"])
        if needed is None:
            return None
        match self._tokens.check(bearer(headers.get("authorization")), needed):
            case TokenCheck.ALLOWED:
                return None
            case TokenCheck.NONE_CONFIGURED:
                message = (
                    f"this driver has no {ADMIN_VARIABLE}, so nobody may use its control API: set {ADMIN_VARIABLE} (or "
                    f"{ADMIN_VARIABLE}_FILE) in the driver's environment, start it again and send the same token"
                )
                return problem(HTTPStatus.FORBIDDEN, "NoTokenConfigured", message)
            case TokenCheck.TOO_LITTLE:
                message = f"this token may only drain a worker; this call needs {ADMIN_VARIABLE}"
                return problem(HTTPStatus.FORBIDDEN, "TokenMayOnlyDrain", message)
            case TokenCheck.UNKNOWN:
                names = ADMIN_VARIABLE if needed is Permission.ADMIN else f"{ADMIN_VARIABLE} or {DRAIN_VARIABLE}"
                message = f"send `Authorization: Bearer TOKEN` with the driver's {names}"
                return problem(HTTPStatus.UNAUTHORIZED, "TokenRequired", message)


async def _read(receive: Receive, bytes_max: int) -> bytes | None:
    """The whole body; None as soon as it is too large."""
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        part = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            return None
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, once more; then whatever comes after it."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
