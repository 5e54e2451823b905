"""The page at `/` of the control API: HTML, CSS and JavaScript of the package, served as they are.

The files have no data, so that they need no token; the page requests data from `/v1` with the token that its user enters, as any
other client. Only the files named here are served. The policy in the headers lets the page load and connect to nothing but its own
origin, and run no script that is not one of these files. There are no cookies, and other origins get no permission (CORS).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

INDEX: Final = "index.html"
NAMES: Final = ("api.js", "charts.js", "field.js", "icon.svg", "layout.js", "page.css", "page.js", "text.js", "view.js")
PATHS: Final = frozenset({"/", *(f"/static/{name}" for name in NAMES)})

MEDIA_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def page() -> APIRouter:
    """The page and its files; they are read once."""
    router = APIRouter(include_in_schema=False)
    for path in sorted(PATHS):
        name = path.rpartition("/")[2] or INDEX
        content = files("binshift.control").joinpath("static", name).read_bytes()
        router.add_api_route(path, _served(name, content), methods=["GET", "HEAD"])
    return router


def _served(name: str, content: bytes) -> Callable[[Request], Response]:
    kind = MEDIA_TYPES[name.rpartition(".")[2]]
    headers = {**HEADERS, "ETag": f'"{hashlib.sha256(content).hexdigest()[:32]}"'}

    def serve(request: Request) -> Response:
        """The file, or nothing if the browser has it already."""
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return serve
