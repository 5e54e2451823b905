"""The versions of driver, pods and operator, and what is reported if they differ."""

from __future__ import annotations

import pytest
import yaml
from test_crd import ROOT, SPEC

from binshift import __version__
from binshift_operator.driver_answers import parse_runtime
from binshift_operator.model.observed import ObservedState
from binshift_operator.model.observed_runtime import ObservedRuntime, RunState
from binshift_operator.model.pods import Pod
from binshift_operator.model.status import Condition, ConditionType, Status
from binshift_operator.pod_state import parse_pod
from binshift_operator.status.conditions import update_pending


def observed(driver: str | None = __version__, *pods: str) -> ObservedState:
    """A driver and pods of these versions."""
    runtime = None if driver is None else ObservedRuntime(RunState.RUNNING, version=driver)
    made = tuple(Pod(str(n), str(n), n, is_driver=False, operator_version=each) for n, each in enumerate(pods))
    return ObservedState(0.0, {}, made, runtime=runtime, operator_version=__version__)


@pytest.mark.parametrize(
    ("seen", "reason", "message"),
    [
        (observed(None), "OneVersion", __version__),
        (observed(__version__, __version__, __version__), "OneVersion", __version__),
        (observed("0.0.9", __version__), "DriverVersion", "the driver 0.0.9: rebuild the image"),
        (observed("", __version__), "DriverVersion", "an older version"),
        (observed(__version__, __version__, "0.0.9"), "PodVersions", f"0.0.9, {__version__}: raise restartNonce"),
        (observed(__version__, ""), "PodVersions", "an older version"),
    ],
)
def test_what_differs_is_named(seen: ObservedState, reason: str, message: str) -> None:
    """Nothing pends while all is of one version; else one reads which differs, and what brings it up."""
    found = update_pending(seen, Status())
    assert (found.status, found.reason) == (reason != "OneVersion", reason)
    assert message in found.message


@pytest.mark.parametrize("driver", ["0.0.9", "", __version__])
def test_a_silence_of_the_driver_changes_nothing(driver: str) -> None:
    """A driver that does not answer for a moment is of the version that it was of."""
    spoken = update_pending(observed(driver), Status())
    last = Condition(ConditionType.UPDATE_PENDING, spoken.status, spoken.reason, spoken.message, 1, 0.0)
    assert update_pending(observed(None), Status(version=driver, conditions=(last,))) == spoken


def test_driver_reports_its_version() -> None:
    """The control API's response has it, and that of an older driver is parsed anyway."""
    models = pytest.importorskip("binshift.control.models")
    answer = models.Dataflow(state=models.State.RUNNING).model_dump(mode="json", by_alias=True)
    assert parse_runtime(answer).version == __version__
    del answer["version"]
    assert parse_runtime(answer).version == ""


def test_a_pod_carries_the_operators_version() -> None:
    """It is read from the annotation that every template has."""
    meta = {"name": "clicks-executor-0", "uid": "u", "annotations": {"binshift.dev/operator-version": "7"}}
    assert parse_pod({"metadata": meta}, 0.0).operator_version == "7"


def test_there_is_one_version() -> None:
    """Package and chart have one version, so the operator's version equals the chart's."""
    chart = yaml.safe_load((ROOT / "charts" / "binshift" / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__


def test_what_binshift_sets_is_refused() -> None:
    """Every key of Spark's conf that a driver's pod sets as it must be is refused in a spec, and not silently written over."""
    from pathlib import Path

    from binshift.hosting.pod import conf
    from binshift.hosting.pod.settings import DriverSettings
    from binshift.spark.conf import required

    settings = DriverSettings("spark://h:1", "h", checkpoint="/c", secret="s")
    fixed = conf.fixed(settings, required(), Path("/app/main.py"), "")
    (rule,) = SPEC["sparkConf"]["x-kubernetes-validations"]
    assert {key for key in fixed if f"'{key}'" not in rule["rule"]} == set()
    assert all(key in rule["message"] for key in fixed)
