"""Settings that change while a query runs: through the API, of one query and of several."""

from __future__ import annotations

import pytest
from control_fakes import FakeService, client
from control_several import Both
from control_simulated import World

from binshift.control.requests import SettingsRequest


def test_the_newest_request_counts() -> None:
    """The query has it, and the dataflow shows it; null is no bound."""
    world = World()
    for seconds in (2.5, None):
        world.service.put_settings(SettingsRequest.model_validate({"maxEpochSeconds": seconds}))
        assert world.query.input.max_epoch == seconds
        shown = world.service.snapshot().settings
        assert shown is not None
        assert shown.max_epoch_seconds == seconds


@pytest.mark.parametrize(
    "body", [{}, {"maxEpochSeconds": 0.01}, {"maxEpochSeconds": "2s"}, {"maxEpochSeconds": 1, "more": 1}]
)
def test_wrong_settings_are_refused(body: dict[str, object]) -> None:
    """All of them are named, within their bounds; nothing is changed."""
    service = FakeService()
    assert client(service).put("/v1/settings", json=body).status_code == 422
    assert service.writes == []


def test_all_queries_get_them() -> None:
    """A program with several queries has one setting."""
    both = Both()
    answer = both.client.put("/v1/settings", json={"maxEpochSeconds": 3})
    assert (answer.status_code, answer.json()) == (200, {"maxEpochSeconds": 3.0})
    wanted = SettingsRequest.model_validate({"maxEpochSeconds": 3})
    assert both.one.writes == both.other.writes == [("put_settings", wanted)]
