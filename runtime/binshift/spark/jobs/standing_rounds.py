"""Background rounds as messages to standing tasks of their own: a Spark job for each round takes longer to start than many a round takes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from binshift.engine.ports import Executor
from binshift.model import Worker
from binshift.spark.jobs.standing_members import StandingMembers
from binshift.worker.messages import BackgroundReport, BackgroundSpec


@dataclass
class StandingRounds:
    """The rounds of one query, where all executors concerned have a standing task for them.

    Attributes:
        members: the tasks.
    """

    members: StandingMembers

    def ready(self, on: Mapping[Worker, Executor]) -> bool:
        """Whether a round can run in standing tasks now. It starts missing ones."""
        if self.members.are_ready(on.values()):
            return True
        self.members.start(on)
        return False

    def run(
        self,
        specs: Sequence[BackgroundSpec],
        on: Mapping[Worker, Executor],
        report: Callable[[BackgroundReport], None],
    ) -> None:
        """One round; the reports of each worker that has answered.

        Raises:
            RuntimeError: a worker has not; the message is its reason, as a failed job of Spark would have it.
        """
        workers = sorted(on)
        orders = [pickle.dumps([spec for spec in specs if spec.worker == worker]) for worker in workers]
        trouble = ""
        for answer in self.members.calls.passed([on[worker].id for worker in workers], orders):
            if isinstance(answer, str):
                trouble = trouble or answer
                continue
            for each in pickle.loads(answer):  # noqa: S301 (from tasks, over Spark's RPC)
                report(each)
        if trouble:
            raise RuntimeError(trouble)
