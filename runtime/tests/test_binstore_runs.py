"""The bin store against its model, where copies are written as sorted runs."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize, run_state_machine_as_test
from stores import packing
from test_binstore import LmdbMachine


class RunMachine(LmdbMachine):
    """The machine on the store on disk; any number of rows is packed."""

    @initialize()
    def begin(self) -> None:
        """Both empty."""
        self.small = ExitStack()
        self.small.enter_context(packing(rows_min=1))
        super().begin()

    def teardown(self) -> None:
        """Runs have their usual size again."""
        super().teardown()
        self.small.close()


def test_a_bin_store_with_runs_behaves_as_the_model() -> None:
    """Any sequence of epochs, undos, copies, fences and reopenings agrees with the model after every step."""
    steps = settings(
        max_examples=settings().max_examples // 2,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(RunMachine, settings=steps)
