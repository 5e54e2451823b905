"""Several stateful queries of one program behind one API.

`/v1/queries/{name}/...` is one query, by its name or its id. `/v1/...` without a name is the program: that query if it has one,
all of them together if it has more. There a target applies to every query, as a caller provides workers and names no queries; a
drain removes a worker's bins of all queries; a stop stops all. Joint migrations have their own numbers, from
`joint.JOINT_FIRST` on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from binshift.control.answer import Answer
from binshift.control.epoch_figures import Epochs
from binshift.control.joint import JointHistory, added
from binshift.control.load_answers import joint_load
from binshift.control.models import Bins, Dataflow, LiveSettings, Migration, State, Target, WorkerLoad
from binshift.control.placement import Placement
from binshift.control.requests import RebalanceRequest, SettingsRequest, TargetRequest
from binshift.control.savepoint_answers import joint, joint_of
from binshift.control.savepoints import Snapshot
from binshift.control.services import ControlService
from binshift.engine.timings import EpochTimings
from binshift.errors import BinshiftError, DrainRefused, NoQueryYet, NoSuchQuery, NoSuchSnapshot
from binshift.metrics import Observed
from binshift.model import Worker
from binshift.savepoints.restoring import place_of

log = logging.getLogger(__name__)


class QueryShown(Answer):
    """One stateful query of the program."""

    name: str | None
    id: str
    state: State
    reason: str
    epoch: int


class Queries(Answer):
    """All of them, in the order in which they were started."""

    queries: list[QueryShown]


def shown(snapshot: Dataflow) -> QueryShown:
    """A query in short."""
    return QueryShown(
        name=snapshot.name, id=snapshot.id or "", state=snapshot.state, reason=snapshot.reason, epoch=snapshot.epoch
    )


class JointService(ControlService):
    """That of all queries of a program, where there are several.

    Args:
        services: theirs, in the order in which they were started.
        history: what the program's queries have done together, these and those before them.
    """

    def __init__(self, services: Sequence[ControlService], history: JointHistory) -> None:
        self.services = tuple(services)
        self._history = history

    def unready(self) -> str:
        """See `ControlService`: why none of them can run an epoch."""
        reasons = [each.unready() for each in self.services]
        return "" if "" in reasons else reasons[0]

    def snapshot(self) -> Dataflow:
        """See `ControlService`: what is true of all; the epoch that has run longest; how far the one is that is least far."""
        seen = [each.snapshot() for each in self.services]
        live = [each for each in seen if each.state is State.RUNNING]
        first, others = (live or seen)[0], [each for each in seen if each.state is not State.RUNNING]
        stuck = max((each for each in live if each.under_way), key=lambda each: each.under_way.seconds, default=None)  # type: ignore[union-attr]
        committed = [each.committed_at for each in live or seen]
        oldest = min((at for at in committed if at is not None), default=None)
        worst = next((each for each in seen if each.state in (State.FAILED, State.FENCED)), seen[-1])
        return first.model_copy(
            update={
                "state": State.RUNNING if live else worst.state,
                "reason": "; ".join(
                    f"{each.name or each.id}: {each.state.value} {each.reason}".strip() for each in others
                ),
                "name": None,
                "id": None,
                "run_id": None,
                "epoch": min(each.epoch for each in live or seen),
                "committed_at": None if None in committed else oldest,
                "under_way": None if stuck is None else stuck.under_way,
                "workers": sorted({worker for each in seen for worker in each.workers}),
                "load": joint_load([each.load for each in live]),
                "hot_keys": sorted((key for each in live for key in each.hot_keys), key=lambda key: -key.share),
                "settings": (live or seen)[-1].settings,  # the newest query can have missed a request
                "target": _common([each.target for each in live or seen]),
                "migration": self._history.shown(),
            }
        )

    def workers(self) -> Sequence[WorkerLoad]:
        """See `ControlService`: the sums over all queries."""
        found: dict[int, WorkerLoad] = {}
        for each in (load for service in self.services for load in service.workers()):
            known = found.get(each.worker)
            found[each.worker] = each if known is None else _sum(known, each)
        return [found[worker] for worker in sorted(found)]

    def bins(self, worker: Worker | None, first: int, limit: int) -> Bins:
        """Each query has bins of its own.

        Raises:
            NoSuchQuery: always; the message has their names.
        """
        raise self._ambiguous("bins")

    def placement(self, first: int, limit: int) -> Placement:
        """As `bins`."""
        raise self._ambiguous("placement")

    def newest_epochs(self, after: int, limit: int) -> Epochs:
        """As `bins`."""
        raise self._ambiguous("epochs")

    def migrations(self, limit: int) -> Sequence[Migration]:
        """See `ControlService`: of what the queries did together."""
        return self._history.newest(limit)

    def migration(self, number: int) -> Migration:
        return self._history.migration(number)

    def put_target(self, wanted: TargetRequest) -> Migration | None:
        """See `ControlService`: for every query; a repeated request goes to the queries that did not take it."""
        return self._together(lambda each: each.put_target(wanted))

    def rebalance(self, wanted: RebalanceRequest) -> Migration:
        """See `ControlService`: of the bins of every query whose load is measured.

        Raises:
            NoQueryYet: no query runs.
        """
        found = self._together(lambda each: each.rebalance(wanted))
        if found is None:
            raise NoQueryYet("the bins are not rebalanced: no query runs")
        return found

    def put_settings(self, wanted: SettingsRequest) -> LiveSettings:
        """See `ControlService`: of every query."""
        found = [each.put_settings(wanted) for each in self._live()]
        return found[-1] if found else super().put_settings(wanted)

    def drain(self, worker: Worker) -> Migration:
        """See `ControlService`: of every query's bins."""
        found = self._together(lambda each: each.drain(worker))
        if found is None:
            raise DrainRefused(f"worker {worker} is not drained: no query runs")
        return found

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        return self._history.cancel(number, rollback=rollback)

    def savepoints(self) -> Sequence[Snapshot]:
        """See `ControlService`: of those of all queries."""
        named = self._named()
        names = dict.fromkeys(each.name for service in self.services for each in service.savepoints())
        return [found for name in names if (found := joint_of(name, named)) is not None]

    def savepoint(self, name: str) -> Snapshot:
        found = joint_of(name, self._named())
        if found is None:
            raise NoSuchSnapshot(f"no snapshot {name!r} of all queries was requested since the driver has started")
        return found

    def put_savepoint(self, name: str, location: str) -> Snapshot:
        """See `ControlService`: of every query, in a folder with its name. The copies begin one after the other."""
        parts = {
            query: service.put_savepoint(name, place_of(location, query)) for query, service in self._named().items()
        }
        return joint(name, parts) or self.savepoint(name)

    def remove_savepoint(self, name: str, location: str | None) -> None:
        for query, service in self._named().items():
            service.remove_savepoint(name, location and place_of(location, query))

    def _named(self) -> dict[str, ControlService]:
        seen = [(service, service.snapshot()) for service in self.services]
        return {each.name or each.id or "": service for service, each in seen}

    def stop(self) -> None:
        for each in self._live():
            each.stop()

    def epochs(self) -> Sequence[EpochTimings]:
        """Each query has epochs of its own, and its own metrics."""
        return []

    def observed(self) -> Observed:
        """As `epochs`."""
        return Observed()

    def _live(self) -> list[ControlService]:
        return [each for each in self.services if each.snapshot().state is State.RUNNING]

    def _together(self, act: Callable[[ControlService], Migration | None]) -> Migration | None:
        """Of all that run; the refusal of one stops no other, and counts where none has begun anything."""
        begun, refusals = [], []
        for each in self._live():
            try:
                migration = act(each)
            except BinshiftError as error:
                refusals.append(error)
                continue
            if migration is not None:
                begun.append((each, migration))
        if not begun and refusals:
            raise refusals[0]
        for refusal in refusals:
            log.warning("one query rejects what the others accept: %s", refusal)
        return self._history.begin(begun) if begun else None

    def _ambiguous(self, what: str) -> NoSuchQuery:
        names = ", ".join(str(seen.name or seen.id) for seen in (each.snapshot() for each in self.services))
        return NoSuchQuery(f"several queries run ({names}); ask /v1/queries/NAME/{what} for those of one")


def _common(targets: Sequence[Target | None]) -> Target | None:
    """The target of all queries; None as long as one has none or another one, so that it is requested again."""
    given = [each for each in targets if each is not None]
    if len(given) < len(targets) or len({(each.owner, each.generation, tuple(each.workers)) for each in given}) != 1:
        return None
    return given[0].model_copy(update={"settled": all(each.settled for each in given)})


def _sum(one: WorkerLoad, other: WorkerLoad) -> WorkerLoad:
    return WorkerLoad(
        worker=one.worker,
        registered=one.registered or other.registered,
        effective=one.effective or other.effective,
        bins=one.bins + other.bins,
        keys=added([one.keys, other.keys]),
        bytes=added([one.bytes, other.bytes]),
        copies=added([one.copies, other.copies]),
        background_failures=max(one.background_failures, other.background_failures),
        background_error=one.background_error or other.background_error,
    )
