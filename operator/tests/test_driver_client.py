"""The client of the control API: requests, errors, and answers of other versions."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest
from crd_cases import BASE

from binshift_operator import driver_client
from binshift_operator.driver_client import DriverClient, parse_runtime
from binshift_operator.errors import Changed, Forbidden, Invalid, NotThere, Unreachable
from binshift_operator.model.observed import RunState
from binshift_operator.model.specification import parse


class Answers:
    """Stands for the network: gives prepared answers, and notes what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, []

    def open(self, request: urllib.request.Request, timeout: float) -> Any:
        self.asked.append((request.get_method(), request.full_url, request.data, request.headers))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self

    def read(self, most: int) -> bytes:
        return json.dumps(self.answer).encode()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def refusal(status: int, message: str) -> urllib.error.HTTPError:
    """An answer that is an error."""
    import io

    return urllib.error.HTTPError("u", status, "no", {}, io.BytesIO(json.dumps({"message": message}).encode()))  # type: ignore[arg-type]


def test_target_is_sent_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target carries owner, generation, workers and the migration policy, with the token, which never shows."""
    answers = Answers({"migration": None})
    monkeypatch.setattr(driver_client, "_OPENER", answers)
    manifest = {**BASE, "metadata": {**BASE["metadata"], "namespace": "ns", "uid": "u", "generation": 3}}
    control = DriverClient("http://driver:7400", "secret-token")
    control.put_target(parse(manifest), 3001, (0, 1))
    method, url, data, headers = answers.asked[0]
    assert (method, url) == ("PUT", "http://driver:7400/v1/target")
    assert headers["Authorization"] == "Bearer secret-token"
    assert json.loads(data) == {
        "owner": "u",
        "generation": 3001,
        "workers": [0, 1],
        "strategy": "Optimized",
        "batchSize": 256,
        "preCopy": True,
        "latencyTargetSeconds": 1.0,
    }
    assert "secret-token" not in repr(control)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(409, "outdated"), Changed),
        (refusal(401, "who are you"), Forbidden),
        (refusal(422, "no such field"), Invalid),
        (refusal(404, "no such migration"), NotThere),
        (refusal(503, "not yet"), Unreachable),
        (OSError("refused"), Unreachable),
    ],
    ids=lambda each: getattr(each, "code", getattr(each, "__name__", "silence")),
)
def test_answers_become_errors(monkeypatch: pytest.MonkeyPatch, answer: Exception, error: type[Exception]) -> None:
    """What the driver says no to becomes the error that the operator acts upon."""
    monkeypatch.setattr(driver_client, "_OPENER", Answers(answer))
    with pytest.raises(error):
        DriverClient("http://driver", "t").stop()


def test_what_is_not_understood_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of a newer driver is as good as no answer."""
    monkeypatch.setattr(driver_client, "_OPENER", Answers({"state": "Dreaming"}))
    with pytest.raises(Unreachable):
        DriverClient("http://driver", "t").dataflow()


def test_control_apis_own_answer_is_understood() -> None:
    """The models of the control API give an answer that is read in full."""
    models = pytest.importorskip("binshift.control.models")
    latency = models.Latency(epochs=1, p50_seconds=0.1, p95_seconds=0.2, p99_seconds=0.3, max_seconds=0.4)
    said = models.Dataflow(
        state=models.State.RUNNING,
        epoch=9,
        committed_at=models.moment(1e9),
        route_version=4,
        workers=[0, 1],
        registered=[0],
        latency=latency,
        target=models.Target(
            owner="u", generation=3001, workers=[0], strategy="Fluid", batch_size=1, pre_copy=True,
            latency_target_seconds=1.0, effective_workers=[0], settled=False,
        ),
        migration=models.Migration(
            id=2, phase="copying", reason="", generation=3001, workers=[0], strategy="Fluid", batch_size=1, pre_copy=True,
            bins_moved=3, bins_total=8, started_at=models.moment(1e9), ended_at=None, latency_before=latency,
        ),
    )  # fmt: skip
    found = parse_runtime(json.loads(said.model_dump_json(by_alias=True)))
    assert (found.state, found.epoch, found.committed_at, found.route_version) == (RunState.RUNNING, 9, 1e9, 4)
    assert (found.holding, found.registered, found.latency_p99) == ({0, 1}, {0}, 0.3)
    assert found.target is not None
    assert (found.target.generation, found.target.settled) == (3001, False)
    assert found.migration is not None
    assert (found.migration.bins_moved, found.migration.latency_before, found.migration_workers) == (3, 0.3, {0})
