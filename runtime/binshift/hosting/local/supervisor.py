"""Observes the state, has `binshift.rescale.decide` decide the next action, and carries it out: one `step` at a time.

Level-triggered: a step keeps no state of the previous one except when the target has settled and when a process was started,
and losing that only costs a little time. After each failure of a step the next one observes again. If a worker's process dies,
the next step notices and starts it again; one that dies at once is retried with backoff.

The desired scale is read again at each step. A checkpoint that an earlier run has used has that run's generation on its log:
the desired scale then gets a higher number. Its first epoch needs the workers that hold bins since that run, wanted or not:
they are started until the control API reports the owners. The cluster belongs to this run, so the target of another owner is
replaced. A newer target of this run's owner comes from the page of the control port: it becomes the desired scale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, assert_never

from binshift.backoff import backoff_seconds
from binshift.control.models import Dataflow, State
from binshift.control.requests import TargetRequest
from binshift.errors import GiveUp, Retryable
from binshift.hosting.client import ControlClient
from binshift.hosting.local.directory import DesiredScale, RunDirectory, ScaleStatus
from binshift.local import WORKERS_MAX, LocalCluster
from binshift.model import Worker
from binshift.rescale import (
    LOCAL_OWNER,
    Action,
    Desired,
    Observed,
    PutTarget,
    Runtime,
    StartWorkers,
    StopWorkers,
    Target,
    Wait,
    Workers,
    decide,
    lowest,
)

RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 30.0
"""Longest time between two tries to start a process that keeps dying."""
STEADY_SECONDS: Final = 60.0
"""A process that lived for so long is started again at once."""


@dataclass
class Supervisor:
    """Brings the actual scale to the desired one.

    Attributes:
        cluster: whose processes are started and ended.
        directory: desired scales and statuses.
        control: the control API; None before the program has one.
        clock: seconds, for the time between two tries.
        seen: the dataflow as last reported by the control API; None before it answered.
    """

    cluster: LocalCluster
    directory: RunDirectory
    control: Callable[[], ControlClient | None]
    clock: Callable[[], float] = time.monotonic
    seen: Dataflow | None = field(default=None, init=False)
    _met: bool = field(default=False, init=False)
    _settled: tuple[int, int] | None = field(default=None, init=False)
    _starts: dict[Worker, tuple[int, float]] = field(default_factory=dict, init=False)
    _status: ScaleStatus | None = field(default=None, init=False)

    def step(self) -> tuple[Action, ...]:
        """Observe, decide, act. Returns the decision."""
        scale, control = self.directory.desired_scale, self.control()
        runtime = None
        if control is not None:
            runtime = self._runtime(control)
            scale = self._numbered(scale, runtime)
        desired = Desired(LOCAL_OWNER, scale.generation, lowest(scale.count), takes_over=True)
        actions = decide(Observed(self.cluster.running, runtime), desired)
        self._met = self._met or runtime is not None
        if not self._met and (left := self.directory.recorded - self.cluster.running - desired.workers):
            actions = (StartWorkers(left), *actions)
        status = ScaleStatus(scale.generation)
        for action in actions:
            status = self._carry_out(action, scale, control) or status
        if status != self._status:
            self.directory.set_status(status)
            self._status = status
        return actions

    # --------------------------------------------------------------------------------------------------------- observe

    def _runtime(self, control: ControlClient) -> Runtime | None:
        """The dataflow in the control API; None while no epoch is recorded by a running query."""
        try:
            self.seen = seen = control.dataflow()
        except (Retryable, GiveUp):
            return None
        if seen.state is not State.RUNNING or seen.route_version is None:
            return None
        target = seen.target
        known = None if target is None else Target(target.owner, target.generation, _workers(target.workers))
        settled = target is not None and target.settled
        held = self._held(known, seen.epoch) if settled else 0
        return Runtime(known, _workers(seen.registered), _workers(seen.workers), settled, held)

    def _held(self, target: Target | None, epoch: int) -> int:
        """Epochs since the target was first seen settled."""
        assert target is not None
        if self._settled is None or self._settled[0] != target.generation:
            self._settled = (target.generation, epoch)
        return epoch - self._settled[1]

    def _numbered(self, scale: DesiredScale, runtime: Runtime | None) -> DesiredScale:
        """The requested scale: that of a newer target of this run, or with a generation above the target of an earlier run."""
        target = None if runtime is None else runtime.target
        if target is None or target.owner != LOCAL_OWNER or target.generation < scale.generation:
            return scale
        same = target.generation == scale.generation and len(target.workers) == scale.count
        if same:
            return scale
        count = len(target.workers)
        if (
            self._met
            and target.generation > scale.generation
            and target.workers == lowest(count)
            and count <= WORKERS_MAX
        ):
            return self.directory.request(count, above=target.generation - 1)
        return self.directory.supersede(target.generation)

    # -------------------------------------------------------------------------------------------------------------- do

    def _carry_out(self, action: Action, scale: DesiredScale, control: ControlClient | None) -> ScaleStatus | None:
        match action:
            case StartWorkers(workers):
                for worker in sorted(workers):
                    if self._due(worker):
                        self.cluster.start_worker(worker)
            case StopWorkers(workers):
                for worker in sorted(workers, reverse=True):
                    self.cluster.stop_worker(worker)
                    self._starts.pop(worker, None)
            case PutTarget(target):
                assert control is not None
                return self._put(target, scale, control)
            case Wait(awaiting, workers):
                return ScaleStatus(scale.generation, awaiting.value, tuple(sorted(workers)))
            case _:
                assert_never(action)
        return None

    def _put(self, target: Target, scale: DesiredScale, control: ControlClient) -> ScaleStatus:
        before = self._status
        if before is not None and before.generation == scale.generation and before.refused:
            return before  # the same again would be refused again
        wanted = {
            "owner": target.owner,
            "generation": target.generation,
            "workers": sorted(target.workers),
            "strategy": scale.strategy,
            "batchSize": scale.batch_size,
            "preCopy": scale.pre_copy,
        }
        try:
            control.put_target(TargetRequest.model_validate(wanted))
        except Retryable as later:
            return ScaleStatus(scale.generation, awaiting=str(later))
        except GiveUp as never:
            return ScaleStatus(scale.generation, refused=str(never))
        return ScaleStatus(scale.generation)

    def _due(self, worker: Worker) -> bool:
        """Whether a process may be started now; if so, this is noted as a try."""
        now = self.clock()
        tries, last = self._starts.get(worker, (0, now))
        if now - last > STEADY_SECONDS:
            tries = 0
        if now - last < backoff_seconds(tries, RESTART_SECONDS, RESTART_SECONDS_MAX):
            return False
        self._starts[worker] = (tries + 1, now)
        return True


def _workers(slots: list[int]) -> Workers:
    return frozenset(map(Worker, slots))
