"""Which query a request is for: the program's, or the one that its path names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

from fastapi import Path

from binshift.control.joint import JointHistory
from binshift.control.models import OWNER_CHARACTERS_MAX
from binshift.control.service_holder import ServiceHolder
from binshift.control.services import ControlService

NUMBER_MAX: Final = 2**31 - 1

QueryPath = Annotated[str, Path(max_length=OWNER_CHARACTERS_MAX)]
MigrationPath = Annotated[int, Path(ge=0, le=NUMBER_MAX)]


class Choice(NamedTuple):
    """Which service a request is for, as dependencies of FastAPI: in general, and where a migration is named."""

    service: Callable[..., ControlService]
    of_migration: Callable[..., ControlService | JointHistory]


def of_program(holder: ServiceHolder) -> Choice:
    """That of a path without a name: the only query, or all of them together."""

    def service() -> ControlService:
        return holder.current

    def of_migration(id: MigrationPath) -> ControlService | JointHistory:
        return holder.of_migration(id)

    return Choice(service, of_migration)


def of_query(holder: ServiceHolder) -> Choice:
    """That of a path with a name."""

    def service(query: QueryPath) -> ControlService:
        return holder.query(query)

    return Choice(service, service)
