"""The control API: HTTP on the one side, a `Surface` on the other, and nothing between but translation.

`control_app` has everything; `health_app` only health and metrics, for a port of their own that may be open to the cluster.
Endpoints are plain functions, which the server runs on threads of its own: a slow log delays its own caller only.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, FastAPI, Path, Query, Request, Response, Security
from fastapi.security import HTTPBearer
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from binshift import __version__
from binshift.control import models, problems
from binshift.control.contract import Surface
from binshift.control.guard import Guard
from binshift.control.problems import documented
from binshift.control.tokens import Tokens
from binshift.model import Worker

NUMBER_MAX: Final = 2**31 - 1

WorkerPath = Annotated[int, Path(ge=0, le=models.WORKER_MAX)]
MigrationPath = Annotated[int, Path(ge=0, le=NUMBER_MAX)]

_REFUSED: Final = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_BAD_BODY: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def control_app(surface: Surface, tokens: Tokens, registry: CollectorRegistry) -> FastAPI:
    """The whole API.

    Args:
        surface: the query.
        tokens: who may use it.
        registry: what ``/metrics`` shows.
    """
    app = _app("binshift control API")
    app.include_router(health(surface, registry))
    app.include_router(reads(surface))
    app.include_router(writes(surface))
    app.add_middleware(Guard, tokens=tokens)
    return app


def health_app(surface: Surface, registry: CollectorRegistry) -> FastAPI:
    """Health and metrics alone; they need no token."""
    app = _app("binshift health and metrics")
    app.include_router(health(surface, registry))
    return app


def _app(title: str) -> FastAPI:
    # No pages that load scripts from elsewhere: a driver may have no way to the internet.
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    problems.install(app)
    return app


def health(surface: Surface, registry: CollectorRegistry) -> APIRouter:
    """What the kubelet and Prometheus ask for."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    def healthz() -> models.Health:
        """Whether the driver's process answers."""
        return models.Health(status="ok")

    @router.get("/readyz", responses={503: {"model": models.Health, "description": "Not ready"}})
    def readyz(response: Response) -> models.Health:
        """Whether the query runs and a worker is registered."""
        reason = surface.unready()
        if reason:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return models.Health(status="unavailable" if reason else "ok", reason=reason)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics(request: Request) -> Response:
        """Metrics, in Prometheus's text format or in OpenMetrics."""
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=kind)

    return router


def reads(surface: Surface) -> APIRouter:
    """What can be looked at."""
    router = _guarded()

    @router.get("/dataflow")
    def dataflow() -> models.Dataflow:
        """The dataflow as a whole: epoch, route, workers, watermark, rates, latency, target and migration."""
        return surface.snapshot()

    @router.get("/workers")
    def workers() -> models.Workers:
        """Load by worker."""
        return models.Workers(workers=list(surface.workers()))

    @router.get("/bins")
    def bins(wanted: Annotated[models.BinsParameters, Query()]) -> models.Bins:
        """Owner, size and copies by bin, page by page."""
        return surface.bins(None if wanted.worker is None else Worker(wanted.worker), wanted.first, wanted.limit)

    @router.get("/migrations")
    def migrations(wanted: Annotated[models.MigrationsParameters, Query()]) -> models.Migrations:
        """The newest migrations of this run."""
        return models.Migrations(migrations=list(surface.migrations(wanted.limit)))

    @router.get("/migrations/{id}", responses=documented(HTTPStatus.NOT_FOUND))
    def migration(id: MigrationPath) -> models.Migration:
        """One migration: steps, phase, bins and bytes, time left, latency before and during."""
        return surface.migration(id)

    return router


def writes(surface: Surface) -> APIRouter:
    """What can be changed."""
    router = _guarded()

    @router.put(
        "/target",
        responses={
            **documented(HTTPStatus.CONFLICT, *_BAD_BODY),
            202: {"model": models.Accepted, "description": "A migration begins"},
        },
    )
    def target(wanted: models.TargetRequest, response: Response) -> models.Accepted:
        """Set the desired target; it is durable before the answer. 200 if there is nothing to do, 202 if bins move."""
        return _accepted(surface.put_target(wanted), response)

    @router.delete("/migrations/{id}", status_code=202, responses=documented(HTTPStatus.NOT_FOUND))
    def cancel(
        id: MigrationPath, how: Annotated[models.CancelParameters, Query()], response: Response
    ) -> models.Accepted:
        """Cancel a migration where it does no harm; with ``rollback``, move back what it has moved."""
        return _accepted(surface.cancel(id, rollback=how.rollback), response)

    @router.post("/workers/{worker}/drain", status_code=202, responses=documented(HTTPStatus.CONFLICT))
    def drain(worker: WorkerPath, response: Response) -> models.Accepted:
        """Move everything off a worker, as its pod is about to go."""
        return _accepted(surface.drain(Worker(worker)), response)

    @router.post("/stop", status_code=202)
    def stop() -> models.Dataflow:
        """Finish the running epoch, then stop the query; poll ``/v1/dataflow`` for the state Stopped."""
        surface.stop()
        return surface.snapshot()

    return router


def _guarded() -> APIRouter:
    """The token is checked by the `Guard`; here it is only made known to readers of the OpenAPI document."""
    shown = Security(HTTPBearer(auto_error=False, description="BINSHIFT_TOKEN; to drain, BINSHIFT_DRAIN_TOKEN"))
    return APIRouter(prefix="/v1", tags=["v1"], dependencies=[shown], responses=documented(*_REFUSED))


def _accepted(migration: models.Migration | None, response: Response) -> models.Accepted:
    response.status_code = HTTPStatus.OK if migration is None else HTTPStatus.ACCEPTED
    return models.Accepted(migration=migration)
