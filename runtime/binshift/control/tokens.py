"""Who may do what: two bearer tokens, one for everything and one that may only drain.

The second is for a pod's preStop hook, which should be able to do nothing else, but to watch the migration that it began.
Tokens are compared in constant time, and both of them always, so that how long a refusal takes tells nothing. Without a
token nobody may do anything: an open port that moves state is worse than one that refuses.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

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
    """There is no token, or it is not one of ours."""
    TOO_LITTLE = auto()
    """It is the drain token, and this is no drain."""
    NONE_CONFIGURED = auto()
    """Nobody could be allowed this."""


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
            raise InvalidSettings(f"{DRAIN_VARIABLE} is the same as {ADMIN_VARIABLE}: a drain token must open less")

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
