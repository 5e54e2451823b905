"""The control API: HTTP on the one side, a `ControlService` on the other, and nothing between but translation.

`control_app` has everything; `health_app` only health and metrics, for a port of their own that may be open to the cluster.
Endpoints are plain functions, which the server runs on threads of its own: a slow log delays its own caller only.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response, Security
from fastapi.security import HTTPBearer
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from binshift import __version__
from binshift.control import models, problems, requests
from binshift.control.activation import activation
from binshift.control.auth import Guard, Tokens
from binshift.control.choice import Choice, MigrationPath, of_program, of_query
from binshift.control.epoch_figures import Epochs
from binshift.control.joint import JointHistory
from binshift.control.page import page
from binshift.control.placement import Placement
from binshift.control.problems import documented
from binshift.control.queries import Queries, shown
from binshift.control.requests import RebalanceRequest
from binshift.control.savepoint_calls import snapshots
from binshift.control.service_holder import ServiceHolder
from binshift.control.services import ControlService
from binshift.model import Worker

WorkerPath = Annotated[int, Path(ge=0, le=requests.WORKER_MAX)]


_REFUSED: Final = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_BAD_BODY: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def control_app(holder: ServiceHolder, tokens: Tokens, registry: CollectorRegistry) -> FastAPI:
    """The whole API.

    Args:
        holder: of the program's queries.
        tokens: who can use it.
        registry: what ``/metrics`` shows.
    """
    app = _app("binshift control API")
    app.include_router(health(holder, registry))
    app.include_router(page())
    app.include_router(queries(holder))
    app.include_router(activation(holder, _guarded()))
    for prefix, choice in (("", of_program(holder)), ("/queries/{query}", of_query(holder))):
        app.include_router(reads(choice, prefix))
        app.include_router(series(choice, prefix))
        app.include_router(writes(choice, prefix))
        app.include_router(running(choice, prefix))
        app.include_router(snapshots(choice, _guarded(prefix)))
    app.add_middleware(Guard, tokens=tokens)
    return app


def health_app(holder: ServiceHolder, registry: CollectorRegistry) -> FastAPI:
    """Health and metrics alone; they need no token."""
    app = _app("binshift health and metrics")
    app.include_router(health(holder, registry))
    return app


def _app(title: str) -> FastAPI:
    # No pages that load scripts from elsewhere: a driver may have no way to the internet.
    app = FastAPI(title=title, version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    problems.install(app)
    return app


def health(holder: ServiceHolder, registry: CollectorRegistry) -> APIRouter:
    """Endpoints for the kubelet and Prometheus."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    def healthz() -> models.Health:
        """Whether the driver's process answers."""
        return models.Health(status="ok")

    @router.get("/readyz", responses={503: {"model": models.Health, "description": "Not ready"}})
    def readyz(response: Response) -> models.Health:
        """Whether the query runs and a worker is registered."""
        reason = holder.current.unready()
        if reason:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        return models.Health(status="unavailable" if reason else "ok", reason=reason)

    @router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def metrics(request: Request) -> Response:
        """Metrics, in Prometheus's text format or in OpenMetrics."""
        encode, kind = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), media_type=kind)

    return router


def queries(holder: ServiceHolder) -> APIRouter:
    """Which queries there are."""
    router = _guarded()

    @router.get("/queries")
    def queries() -> Queries:
        """The program's stateful queries; what follows ``/v1`` elsewhere follows ``/v1/queries/NAME`` for one of them."""
        seen = [each.snapshot() for each in holder.each()]
        return Queries(queries=[shown(each) for each in seen if each.id is not None])

    return router


def reads(choice: Choice, prefix: str = "") -> APIRouter:
    """Read-only endpoints of the chosen query."""
    router, chosen, known = _guarded(prefix), Depends(choice.service), Depends(choice.of_migration)

    @router.get("/dataflow")
    def dataflow(service: ControlService = chosen) -> models.Dataflow:
        """The dataflow as a whole: epoch, route, workers, watermark, rates, latency, target and migration."""
        return service.snapshot()

    @router.get("/workers")
    def workers(service: ControlService = chosen) -> models.Workers:
        """Load by worker."""
        return models.Workers(workers=list(service.workers()))

    @router.get("/bins")
    def bins(wanted: Annotated[requests.BinsParameters, Query()], service: ControlService = chosen) -> models.Bins:
        """Owner, size and copies by bin, page by page."""
        return service.bins(None if wanted.worker is None else Worker(wanted.worker), wanted.first, wanted.limit)

    @router.get("/migrations")
    def migrations(
        wanted: Annotated[requests.MigrationsParameters, Query()], service: ControlService = chosen
    ) -> models.Migrations:
        """The newest migrations of this run."""
        return models.Migrations(migrations=list(service.migrations(wanted.limit)))

    @router.get("/migrations/{id}", responses=documented(HTTPStatus.NOT_FOUND))
    def migration(id: MigrationPath, service: ControlService | JointHistory = known) -> models.Migration:
        """One migration: steps, phase, bins and bytes, time left, latency before and during."""
        return service.migration(id)

    return router


def series(choice: Choice, prefix: str = "") -> APIRouter:
    """What the page draws, in a form that is small enough to be read every second."""
    router, chosen = _guarded(prefix), Depends(choice.service)

    @router.get("/placement")
    def placement(
        wanted: Annotated[requests.PlacementParameters, Query()], service: ControlService = chosen
    ) -> Placement:
        """The owner of each bin, and the bins that move, page by page."""
        return service.placement(wanted.first, wanted.limit)

    @router.get("/epochs")
    def epochs(wanted: Annotated[requests.EpochsParameters, Query()], service: ControlService = chosen) -> Epochs:
        """The newest epochs: latency, rows and seconds by part."""
        return service.newest_epochs(wanted.after, wanted.limit)

    return router


_TARGET_ANSWERS: dict[int | str, dict[str, Any]] = {
    **documented(HTTPStatus.CONFLICT, *_BAD_BODY),
    202: {"model": models.Accepted, "description": "A migration begins"},
}


def writes(choice: Choice, prefix: str = "") -> APIRouter:
    """What can be changed, of the query that is chosen."""
    router, chosen, known = _guarded(prefix), Depends(choice.service), Depends(choice.of_migration)

    @router.put("/target", responses=_TARGET_ANSWERS)
    def target(wanted: requests.TargetRequest, response: Response, service: ControlService = chosen) -> models.Accepted:
        """Set the desired target; it is durable before the answer. 200 if there is nothing to do, 202 if bins move."""
        return _accepted(service.put_target(wanted), response)

    @router.post("/rebalance", status_code=202, responses=documented(HTTPStatus.CONFLICT, *_BAD_BODY))
    def rebalance(
        response: Response, wanted: RebalanceRequest | None = None, service: ControlService = chosen
    ) -> models.Accepted:
        """Share the bins among the same workers by their present load. Below 1.05 times the mean load nothing moves."""
        return _accepted(service.rebalance(wanted or RebalanceRequest()), response)

    @router.delete("/migrations/{id}", status_code=202, responses=documented(HTTPStatus.NOT_FOUND))
    def cancel(
        id: MigrationPath,
        how: Annotated[requests.CancelParameters, Query()],
        response: Response,
        service: ControlService | JointHistory = known,
    ) -> models.Accepted:
        """Cancel a migration where it does no harm; with ``rollback``, move back what it has moved."""
        return _accepted(service.cancel(id, rollback=how.rollback), response)

    @router.post("/workers/{worker}/drain", status_code=202, responses=documented(HTTPStatus.CONFLICT))
    def drain(worker: WorkerPath, response: Response, service: ControlService = chosen) -> models.Accepted:
        """Move everything off a worker, as its pod is about to go."""
        return _accepted(service.drain(Worker(worker)), response)

    return router


def running(choice: Choice, prefix: str = "") -> APIRouter:
    """How the chosen query runs, and for how long."""
    router, chosen = _guarded(prefix), Depends(choice.service)

    @router.put("/settings", responses=documented(*_BAD_BODY))
    def settings(wanted: requests.SettingsRequest, service: ControlService = chosen) -> models.LiveSettings:
        """Change settings while the query runs."""
        return service.put_settings(wanted)

    @router.post("/stop", status_code=202)
    def stop(service: ControlService = chosen) -> models.Dataflow:
        """Finish the running epoch, then stop the query; poll ``/v1/dataflow`` for the state Stopped."""
        service.stop()
        return service.snapshot()

    return router


def _guarded(prefix: str = "") -> APIRouter:
    """The token is checked by the `Guard`; here it is only made known to readers of the OpenAPI document."""
    door = Security(HTTPBearer(auto_error=False, description="BINSHIFT_TOKEN; to drain, BINSHIFT_DRAIN_TOKEN"))
    return APIRouter(
        prefix=f"/v1{prefix}",
        tags=["query" if prefix else "v1"],
        dependencies=[door],
        responses=documented(*_REFUSED, *([HTTPStatus.NOT_FOUND] if prefix else [])),
    )


def _accepted(migration: models.Migration | None, response: Response) -> models.Accepted:
    response.status_code = HTTPStatus.OK if migration is None else HTTPStatus.ACCEPTED
    return models.Accepted(migration=migration)
