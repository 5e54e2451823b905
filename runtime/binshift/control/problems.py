"""Every error of the API in one form, `Problem` (RFC 9457), and which status each kind of error has.

Bad input is a 4xx, always; 503 means "not now", and 500 is a bug of binshift. Errors return nothing of a request except the
place of its mistake, cut short: an error must neither echo a secret nor grow with its input.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from binshift.control.answer import Answer
from binshift.errors import (
    BinshiftError,
    DrainRefused,
    Fenced,
    InvalidRoute,
    InvalidSettings,
    MigrationRefused,
    NoSuchMigration,
    NoSuchQuery,
    NoSuchSnapshot,
    Retryable,
    SnapshotRefused,
    TargetOutdated,
    TargetOwned,
)

log = logging.getLogger(__name__)

STATUS: Final[Mapping[type[BinshiftError], HTTPStatus]] = {
    TargetOutdated: HTTPStatus.CONFLICT,
    TargetOwned: HTTPStatus.CONFLICT,
    DrainRefused: HTTPStatus.CONFLICT,
    NoSuchMigration: HTTPStatus.NOT_FOUND,
    NoSuchQuery: HTTPStatus.NOT_FOUND,
    NoSuchSnapshot: HTTPStatus.NOT_FOUND,
    SnapshotRefused: HTTPStatus.CONFLICT,
    MigrationRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidRoute: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidSettings: HTTPStatus.UNPROCESSABLE_ENTITY,
    Fenced: HTTPStatus.SERVICE_UNAVAILABLE,
    Retryable: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The nearest ancestor of an error counts; what has none here is a 500."""

DETAILS_MAX: Final = 20
PLACE_CHARACTERS_MAX: Final = 100
RETRY_SECONDS: Final = "1"
MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:binshift:error:"

Document = dict[int | str, dict[str, Any]]
"""The part of an OpenAPI operation that describes answers by status."""


class Detail(Answer):
    """One thing that is wrong with a request."""

    where: str
    message: str


class Problem(Answer):
    """Every error of this API, in the form of RFC 9457 (``application/problem+json``) with further fields."""

    type: str = Field(description="`TYPE_PREFIX` and the name of the error.")
    title: str = Field(description="The phrase of the status.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="As `message`.")
    error: str = Field(description="The name of the error, for programs.")
    message: str = Field(description="What is wrong and what to do, for users.")
    details: list[Detail] = Field(default=[], description="Of a request that does not fit, what is wrong where.")
    file: str | None = Field(default=None, description="Of a damaged log, the file, if it is one's damage.")
    operator: str | None = Field(default=None, description="Of a damaged log, the operator, if it is one's state.")
    epoch: int | None = Field(default=None, description="Of a damaged log, the epoch, if it is one's state or record.")


def documented(*statuses: HTTPStatus) -> Document:
    """The same form for each of these statuses, as OpenAPI wants it."""
    return {int(status): {"model": Problem, "description": status.phrase} for status in statuses}


def problem(
    status: int,
    error: str,
    message: str,
    details: Sequence[Detail] = (),
    fields: Mapping[str, str | int] | None = None,
) -> JSONResponse:
    """The answer for one error; ``fields`` are those of its kind."""
    headers = {"WWW-Authenticate": 'Bearer realm="binshift"'} if status == HTTPStatus.UNAUTHORIZED else {}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = RETRY_SECONDS
    body = Problem(
        type=TYPE_PREFIX + error,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=message,
        error=error,
        message=message,
        details=list(details),
    ).model_copy(update=fields)
    return JSONResponse(body.model_dump(mode="json", by_alias=True, exclude_none=True), status, headers, MEDIA_TYPE)


def status_of(error: BinshiftError) -> HTTPStatus:
    """The status an error of the tree has.

    >>> status_of(TargetOutdated("")).value, status_of(BinshiftError("")).value
    (409, 500)
    """
    found = (STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def install(app: FastAPI) -> None:
    """Have ``app`` answer every error so, and document it."""
    app.add_exception_handler(BinshiftError, _of_the_tree)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _bug)
    plain, app.openapi = app.openapi, lambda: _with_media_type(plain())  # type: ignore[method-assign]


def _with_media_type(document: dict[str, Any]) -> dict[str, Any]:
    """FastAPI documents every model as plain JSON."""
    calls = (call for methods in document["paths"].values() for call in methods.values())
    for content in (answer.get("content", {}) for call in calls for answer in call["responses"].values()):
        if "Problem" in str(content.get("application/json")):
            content[MEDIA_TYPE] = content.pop("application/json")
    return document


def _of_the_tree(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, BinshiftError)
    return problem(status_of(error), type(error).__name__, str(error), fields=error.fields)


def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [Detail(where=_place(each["loc"]), message=_plain(each["msg"])) for each in error.errors()[:DETAILS_MAX]]
    message = "; ".join(f"{each.where}: {each.message}" for each in found[:3]) or "the request does not fit"
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "InvalidRequest", message, found)


def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    answer = problem(status, status.phrase.title().replace(" ", "").replace("-", ""), _plain(str(error.detail)))
    answer.headers.update(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED and (methods := allowed(request.app, request.url.path)):
        answer.headers["Allow"] = ", ".join(methods)
    return answer


def allowed(app: FastAPI, path: str) -> list[str]:
    """The methods of all calls on this path; the framework alone names only those of the first."""
    calls: Mapping[str, Mapping[str, Any]] = app.openapi()["paths"]
    fitting = (each for template, each in calls.items() if re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path))
    return sorted({method.upper() for methods in fitting for method in methods})


def _bug(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    message = f"a bug in binshift ({type(error).__name__}); the driver's log has its traceback"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal", message)


def _place(location: Sequence[int | str]) -> str:
    return _plain(".".join(map(str, location)))


def _plain(text: str) -> str:
    """Short, and encodable: a JSON string may hold half a character."""
    return text.encode("ascii", "backslashreplace").decode("ascii")[:PLACE_CHARACTERS_MAX]
