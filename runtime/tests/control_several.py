"""A program with two fake queries behind the control API, and a caller of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from control_fakes import ADMIN, FakeService, a_migration
from prometheus_client.registry import CollectorRegistry
from starlette.testclient import TestClient

from binshift.control.app import control_app
from binshift.control.auth import Tokens
from binshift.control.models import Dataflow, Migration, State, WorkerLoad, moment
from binshift.control.program_metrics import ProgramMetrics
from binshift.control.requests import TargetRequest
from binshift.control.service_holder import ServiceHolder
from binshift.engine.migrations import MIGRATIONS_A_TERM
from binshift.errors import NoSuchMigration
from binshift.metrics import Observed
from binshift.model import Epoch

TARGET = {"owner": "uid", "generation": 7, "workers": [0, 1, 2]}


@dataclass
class Named(FakeService):
    """One query of several.

    Attributes:
        name: its name.
        state: its state.
        phase: of its migrations.
        phases: the phases of migrations that differ, by number.
        requests: how often a migration was requested by its number.
        epoch: its newest.
        committed_at: when that was recorded, in seconds since 1970.
        troubles: the consecutive failed background rounds of worker 1, and the reason of the newest failure.
        term: the term of its driver.
        forgotten: migrations that it no longer knows.
    """

    name: str = ""
    state: State = State.RUNNING
    phase: str = "copying"
    phases: dict[int, str] = field(default_factory=dict)
    requests: int = 0
    epoch: int = 7
    committed_at: float | None = None
    troubles: tuple[int, str] = (0, "")
    term: int = 1
    forgotten: set[int] = field(default_factory=set)

    def snapshot(self) -> Dataflow:
        """See `FakeService`."""
        mine = {"name": self.name, "id": f"id-{self.name}", "state": self.state}
        newest = {"epoch": self.epoch, "committed_at": moment(self.committed_at)}
        return super().snapshot().model_copy(update=mine | newest)

    def workers(self) -> Sequence[WorkerLoad]:
        """See `FakeService`."""
        failures, error = self.troubles
        well, troubled = super().workers()
        return [well, troubled.model_copy(update={"background_failures": failures, "background_error": error})]

    def migration(self, number: int) -> Migration:
        """See `FakeService`."""
        self.requests += 1
        if number in self.forgotten:
            raise NoSuchMigration(f"there is no migration {number}")
        return a_migration(number).model_copy(update={"phase": self.phases.get(number, self.phase)})

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """As `FakeService`, with the number that the query assigns."""
        found = super().put_target(wanted)
        first = (self.term - 1) * MIGRATIONS_A_TERM
        return None if found is None else found.model_copy(update={"id": first + found.id})

    def observed(self) -> Observed:
        """See `FakeService`."""
        return Observed(epoch=Epoch(len(self.name)))


class Both:
    """A program with two queries, and a caller of its API."""

    def __init__(self) -> None:
        self.one, self.other = Named(name="one"), Named(name="other")
        self.holder = ServiceHolder()
        self.holder.add(self.one)
        self.holder.add(self.other)
        self.registry = CollectorRegistry()
        ProgramMetrics(self.registry, self.holder.named)
        app = control_app(self.holder, Tokens(ADMIN, None), self.registry)
        self.client = TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"}, raise_server_exceptions=False)
