"""The call that ends a standby."""

from __future__ import annotations

from fastapi import APIRouter

from binshift.control import models
from binshift.control.service_holder import ServiceHolder


def activation(holder: ServiceHolder, router: APIRouter) -> APIRouter:
    """The endpoint that makes a standby the active driver, added to ``router``."""

    @router.post("/activate")
    def activate() -> models.Dataflow:
        """Make a standby the active driver: its program starts its queries. No effect on the active one."""
        holder.current.activate()
        return holder.current.snapshot()

    return router
