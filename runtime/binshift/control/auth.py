"""Who can do what: no request passes without a token that allows it, or with a body that is too large.

There are two bearer tokens: one for everything, and one for a pod's preStop hook, which can drain a worker and watch that
migration. The guard stands in front of FastAPI, so that a body of an unauthorised caller is not even read. It is closed by default:
every path needs the admin token unless it is listed as open or belongs to a drain. Health and metrics contain nothing that could be
misused, and their callers (the kubelet, Prometheus) often have no token. Without a token, nothing is allowed: an open port that
moves state is worse than one that refuses. Tokens are compared in constant time, and both of them always.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from binshift.control.page import PATHS
from binshift.control.problems import problem
from binshift.errors import InvalidSettings

ADMIN_VARIABLE: Final = "BINSHIFT_TOKEN"
DRAIN_VARIABLE: Final = "BINSHIFT_DRAIN_TOKEN"
FILE_SUFFIX: Final = "_FILE"
TOKEN_CHARACTERS_MAX: Final = 4096


class Permission(Enum):
    """What a caller asks to do."""

    ADMIN = auto()
    DRAIN = auto()


class TokenCheck(Enum):
    """What a token is worth for a permission."""

    ALLOWED = auto()
    UNKNOWN = auto()
    """There is no token, or an unknown one."""
    TOO_LITTLE = auto()
    """It is the drain token, and this is no drain."""
    NONE_CONFIGURED = auto()
    """No token permits this."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens that open the API; None: there is none. They never show in a repr.

    Raises:
        InvalidSettings: a token is empty, too long or not of printable ASCII, or both are the same.
    """

    admin: str | None = field(default=None, repr=False)
    drain: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, token in ((ADMIN_VARIABLE, self.admin), (DRAIN_VARIABLE, self.drain)):
            if token is not None and not re.fullmatch(rf"[!-~]{{1,{TOKEN_CHARACTERS_MAX}}}", token):
                raise InvalidSettings(
                    f"{name} must be 1 to {TOKEN_CHARACTERS_MAX} printable ASCII characters without spaces; "
                    'make one with `python -c "import secrets; print(secrets.token_urlsafe(32))"`'
                )
        if self.admin is not None and self.admin == self.drain:
            raise InvalidSettings(
                f"{DRAIN_VARIABLE} is the same as {ADMIN_VARIABLE}: the drain token must differ, as it permits less"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Tokens:
        """From ``BINSHIFT_TOKEN`` and ``BINSHIFT_DRAIN_TOKEN``, or the files that ``..._FILE`` name.

        Raises:
            InvalidSettings: a file cannot be read, both ways are used for one token, or a token does not fit.
        """
        return cls(_token(environment, ADMIN_VARIABLE), _token(environment, DRAIN_VARIABLE))

    def check(self, given: str | None, permission: Permission) -> TokenCheck:
        """What ``given`` is worth for ``permission``."""
        is_admin, is_drain = _same(given, self.admin), _same(given, self.drain)
        if is_admin or (is_drain and permission is Permission.DRAIN):
            return TokenCheck.ALLOWED
        if self.admin is None and (self.drain is None or permission is Permission.ADMIN):
            return TokenCheck.NONE_CONFIGURED
        return TokenCheck.TOO_LITTLE if is_drain else TokenCheck.UNKNOWN


def bearer(authorization: str | None) -> str | None:
    """The token of an ``Authorization`` header; None if it has none.

    >>> bearer("Bearer abc"), bearer("bearer abc"), bearer("Basic abc"), bearer(None)
    ('abc', 'abc', None, None)
    """
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _same(given: str | None, token: str | None) -> bool:
    """Digests are compared, so that not even the length of a token shows."""
    given_digest, digest = (hashlib.sha256((each or "").encode("utf-8", "replace")).digest() for each in (given, token))
    same = hmac.compare_digest(given_digest, digest)
    return same and given is not None and token is not None


def _token(environment: Mapping[str, str], variable: str) -> str | None:
    direct, file = environment.get(variable), environment.get(variable + FILE_SUFFIX)
    if direct is not None and file is not None:
        raise InvalidSettings(f"both {variable} and {variable + FILE_SUFFIX} are set; remove one of them")
    if file is None:
        return direct
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{variable + FILE_SUFFIX} names {file}, which cannot be read: {error}") from error


BODY_BYTES_MAX: Final = 64 * 1024
"""Largest body of a request: a target that names a thousand workers takes 10 KiB."""

OPEN: Final = PATHS | {"/healthz", "/readyz", "/metrics", "/openapi.json"}
"""Readable without a token: health, and files that are the same for every program."""

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


class Guard:
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
                    f"this driver has no {ADMIN_VARIABLE}, so its control API is closed: set {ADMIN_VARIABLE} (or "
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
