"""`kubectl binshift` against a real control server; a script in kubectl's place shows what it is asked, and can fail as kubectl does."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, Mounted
from control_fakes import ADMIN, DRAIN, FakeService

from binshift import __version__
from binshift.control import ControlSettings, Tokens, serve
from binshift.hosting.kubectl import plugin

KUBECTL = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
    *port-forward*) echo "Forwarding from 127.0.0.1:$PORT -> 7400"; exec sleep 300 ;;
    *"get secret"*) cat "$SECRET" ;;
    *"get pod "*) cat "$POD" ;;
    *"get streamingdataflows"*) cat "$DATAFLOW"; for each in next later; do mv "$DATAFLOW.$each" "$DATAFLOW" 2>/dev/null && break; done || true ;;
    *patch*) ;;
    *) echo "unknown command" >&2; exit 1 ;;
esac
"""
CONDITION = {"type": "Ready", "status": "True", "reason": "Running", "message": "Last epoch 7, 1 s ago."}
Run = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def run(
    service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs a command: its exit status, what it prints on both streams, and the calls of kubectl."""
    script = tmp_path / "kubectl"
    script.write_text(KUBECTL)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    secret = {"data": {"control-token": base64.b64encode(ADMIN.encode()).decode()}}
    dataflow = {
        "metadata": {"generation": 3},
        "spec": {"replicas": 2, "rebalance": {"nonce": 4}},
        "status": {"conditions": [CONDITION], "settledGeneration": 3},
    }
    (tmp_path / "secret").write_text(json.dumps(secret))
    (tmp_path / "dataflow").write_text(json.dumps(dataflow))
    (tmp_path / "pod").write_text('{"metadata": {}}')
    with serve(ControlSettings(tokens=Tokens(ADMIN, DRAIN))) as control:
        control.services.current = service
        for name, value in {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(tmp_path / "calls"),
            "PORT": str(control.api.port),
            "SECRET": str(tmp_path / "secret"),
            "DATAFLOW": str(tmp_path / "dataflow"),
            "POD": str(tmp_path / "pod"),
        }.items():
            monkeypatch.setenv(name, value)

        def call(*arguments: str) -> tuple[int, str, list[str]]:
            (tmp_path / "calls").write_text("")
            status = plugin.main(arguments)
            printed = capsys.readouterr()
            return status, printed.out + printed.err, (tmp_path / "calls").read_text().splitlines()

        yield call


def test_status_has_conditions_and_the_drivers_own_facts(run: Run) -> None:
    """Options of kubectl go to every call; the token is the Secret's."""
    status, printed, calls = run("status", "clicks", "-n", "shop", "--context", "far")
    assert status == 0
    assert "True, Running: Last epoch 7, 1 s ago." in printed
    assert "7, route 3" in printed
    assert all(call.startswith("--namespace=shop --context=far ") for call in calls)
    assert calls[-1].endswith("port-forward pod/clicks-driver-0 :7400 --address=127.0.0.1")


def test_a_driver_with_a_certificate_is_reached(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod shows that it has one; what it is for does not matter at the end of a forwarded port."""
    folder = Mounted(tmp_path / "tls").put(Authority().issue("clicks-driver.shop.svc"))
    (tmp_path / "pod").write_text('{"metadata": {"annotations": {"binshift.dev/tls-secret": "clicks-tls"}}}')
    with serve(ControlSettings(tokens=Tokens(ADMIN, DRAIN), tls=folder)) as control:
        control.services.current = FakeService()
        monkeypatch.setenv("PORT", str(control.api.port))
        status, printed, calls = run("status", "clicks", "-n", "shop")
    assert (status, "7, route 3" in printed) == (0, True)
    assert "--namespace=shop get pod clicks-driver-0 --output=json" in calls


def test_status_has_the_replacement_of_executors(run: Run, tmp_path: Path) -> None:
    """While executors are replaced one after the other, status shows how many are updated, and which nodes they leave."""
    assert "rollout" not in run("status", "clicks")[1]
    rollout = {"updated": 1, "total": 3, "leavingNodes": ["node-1"]}
    (tmp_path / "dataflow").write_text(json.dumps({"spec": {"replicas": 3}, "status": {"rollout": rollout}}))
    assert "1 of 3 executors updated; they leave node-1" in run("status", "clicks")[1]
    assert json.loads(run("status", "clicks", "--output", "json")[1])["rollout"] == rollout


def test_status_has_the_number_of_executors_by_the_load(run: Run, tmp_path: Path) -> None:
    """With autoscaling, status shows the number in force, and why."""
    scaled = {"desiredReplicas": 5, "reason": "Load", "message": "2 to 5 workers: 3,000 rows/s keep 3.0 busy"}
    (tmp_path / "dataflow").write_text(json.dumps({"spec": {"replicas": 2}, "status": {"autoscaling": scaled}}))
    assert "5, Load: 2 to 5 workers" in run("status", "clicks")[1]


COMMANDS = [["bins"], ["bins", "--worker", "1"], ["migrations"], ["top"], ["status"], ["rebalance"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_everything_is_printed_as_json(command: list[str], run: Run) -> None:
    """One line, for scripts."""
    name, *rest = command
    status, printed, _ = run(name, "clicks", *rest, "--output", "json")
    assert status == 0
    assert isinstance(json.loads(printed), dict | list)


def test_bins_and_load_are_tables(run: Run) -> None:
    """A line for each worker."""
    for command in ("bins", "top"):
        status, printed, _ = run(command, "clicks")
        assert status == 0
        assert [line.split()[0] for line in printed.splitlines()[1:]] == ["0", "1"]


def test_what_is_not_known_is_no_zero(run: Run) -> None:
    """Rates are not known until enough records were counted."""
    assert [line.split()[1] for line in run("top", "clicks")[1].splitlines()[1:]] == ["-", "-"]
    loads = json.loads(run("top", "clicks", "--output", "json")[1])
    assert [each["rowsPerSecond"] for each in loads] == [None, None]


def test_rebalance_edits_the_dataflow(run: Run) -> None:
    """The operator carries it out: the nonce becomes another one."""
    status, _, calls = run("rebalance", "clicks")
    assert status == 0
    assert json.loads(calls[-1].partition("--patch=")[2]) == {"spec": {"rebalance": {"nonce": 5}}}


def test_watch_waits_for_the_newest_edit(run: Run, tmp_path: Path) -> None:
    """A migration that ended before the operator has seen the edit is not the end: progress is shown until the generation settles."""
    progressing = {"type": "Progressing", "status": "True", "reason": "Children", "message": "executors are started"}
    written = json.loads((tmp_path / "dataflow").read_text())
    written["metadata"]["generation"], written["status"]["conditions"] = 4, [progressing]
    for name in ("dataflow", "dataflow.next"):  # the first is read for the driver's pod
        (tmp_path / name).write_text(json.dumps(written))
    written["status"]["settledGeneration"] = 4
    (tmp_path / "dataflow.later").write_text(json.dumps(written))
    status, printed, calls = run("migrations", "clicks", "--watch")
    assert status == 0
    assert printed.splitlines()[0] == "executors are started"
    assert sum("get streamingdataflows" in call for call in calls) == 3


def test_drain_is_a_request_to_the_driver(run: Run, service: FakeService) -> None:
    """Its refusal is the API's own text."""
    assert run("drain", "clicks", "1")[0] == 0
    assert any("drain" in map(str, write) for write in service.writes)
    status, printed, _ = run("drain", "clicks", "0")
    assert status == 1
    assert "DrainRefused: worker 0 is the last one" in printed


def test_the_error_is_kubectls_own(run: Run, tmp_path: Path) -> None:
    """One line, without kubectl's log and without a traceback."""
    (tmp_path / "kubectl").write_text(
        "#!/bin/sh\necho E1 log >&2\necho 'secrets \"clicks-keys\" is forbidden' >&2\nexit 1\n"
    )
    status, printed, _ = run("bins", "clicks")
    assert status == 1
    assert "NoRun" in printed
    assert "is forbidden" in printed
    assert printed.count("\n") == 1


def test_version_and_help_need_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is the package's; the help names the way to the help of a command."""
    for option, shown in (("--version", f"kubectl binshift {__version__}\n"), ("--help", "COMMAND --help")):
        with pytest.raises(SystemExit):
            plugin.main([option])
        assert shown in capsys.readouterr().out


def test_completion_lists_the_commands(run: Run, tmp_path: Path) -> None:
    """kubectl runs the script for the arguments after its own name."""
    _, script, _ = run("completion")
    (tmp_path / "kubectl_complete-binshift").write_text(script)
    shown: Any = os.popen(f"sh {tmp_path}/kubectl_complete-binshift ''").read().split()
    assert set(plugin.COMMANDS) < set(shown)
    assert shown[-1] == ":4"


IMPORTED = """
import sys
from importlib.metadata import packages_distributions
import binshift.hosting.kubectl.plugin
packages = packages_distributions()
print(*sorted({each for name in sys.modules for each in packages.get(name, [])}))
"""


def test_the_plugin_needs_its_extra_alone() -> None:
    """What it imports is what `binshift[kubectl]` installs: no Spark, no Arrow, no server."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["kubectl"]]
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    needed_by_these = {"annotated-types", "pydantic_core", "typing_extensions", "typing-inspection"}
    extra = {each.partition(">=")[0] for each in named}
    assert {each for each in done.stdout.split() if each not in OF_PYTHON} - needed_by_these == extra


OF_PYTHON = {"setuptools", "pip"}
"""In the environment, and imported by its start."""


def test_the_active_driver_is_called(run: Run, tmp_path: Path) -> None:
    """With a standby driver, the port of the active one's pod is forwarded, and status names both."""
    driver = {"active": "clicks-driver-1", "activeUID": "u", "standby": "clicks-driver-0"}
    (tmp_path / "dataflow").write_text(json.dumps({"spec": {"replicas": 3}, "status": {"driver": driver}}))
    status, printed, calls = run("status", "clicks")
    assert (status, "clicks-driver-1; standby clicks-driver-0" in printed) == (0, True)
    assert calls[-1].endswith("port-forward pod/clicks-driver-1 :7400 --address=127.0.0.1")
    (tmp_path / "dataflow").write_text(json.dumps({"spec": {}, "status": {"driver": {"active": "clicks-driver-1"}}}))
    assert "clicks-driver-1; no standby waits" in run("status", "clicks")[1]
