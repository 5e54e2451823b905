"""The folder that a run and its commands share, and the commands' errors if there is no run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binshift import cli
from binshift.control import models
from binshift.errors import InvalidSettings, MigrationRefused, NoRun, RunFailed
from binshift.hosting.local import directory
from binshift.hosting.local.directory import DesiredScale, RunDirectory, ScaleStatus
from binshift.hosting.local.options import settled


def environment(tmp_path: Path) -> dict[str, str]:
    """A temporary home."""
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


def test_a_run_is_found_as_long_as_it_lives(tmp_path: Path) -> None:
    """Another process of the user can read the run's information only while the run is alive; then it is removed."""
    where = environment(tmp_path)
    with directory.create_run(Path("clicks.py"), "secret", tmp_path, 2, where) as made:
        made.publish("http://127.0.0.1:1")
        found = directory.find(where)
        assert (found.run.token, found.run.url, found.desired_scale) == (
            "secret",
            "http://127.0.0.1:1",
            DesiredScale(1, 2),
        )
        modes = [path.stat().st_mode & 0o777 for path in (found.path / "run.json", found.path, found.path.parent)]
        assert modes == [0o600, 0o700, 0o700]
    with pytest.raises(NoRun, match=r"binshift run app\.py"):
        directory.find(where)
    assert list((tmp_path / "binshift").iterdir()) == []


KILLED = """
import os, sys
from pathlib import Path
from binshift.hosting.local import directory
with directory.create_run(Path("killed.py"), "secret", Path("."), 2, os.environ):
    os._exit(9)
"""


def test_a_killed_run_is_not_found_and_removed_by_the_next(tmp_path: Path) -> None:
    """Commands do not find a run that could not clean up, and the next run removes its folder."""
    where = environment(tmp_path)
    subprocess.run([sys.executable, "-c", KILLED], env=os.environ | where, timeout=60)
    (old,) = (tmp_path / "binshift").glob("killed-*")
    with pytest.raises(NoRun):
        directory.find(where)
    with directory.create_run(Path("next.py"), "secret", tmp_path, 2, where):
        assert not old.exists()


def test_several_runs_are_told_apart_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two runs a command must name one; the error lists both."""
    where = environment(tmp_path)
    with directory.create_run(Path("a.py"), "t", tmp_path, 2, where) as first:
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with directory.create_run(Path("b.py"), "t", tmp_path, 2, where) as second:
            with pytest.raises(NoRun, match=f"{first.path.name}, {second.path.name}.*--run"):
                directory.find(where)
            assert directory.find(where, second.path.name) == second
            with pytest.raises(NoRun, match="'c'"):
                directory.find(where, "c")


def test_a_home_that_others_can_open_is_refused(tmp_path: Path) -> None:
    """A token is never stored where another user could read it, or where another user could create a folder."""
    home = tmp_path / "binshift"
    home.mkdir(mode=0o755)
    with pytest.raises(InvalidSettings, match="chmod 700"):
        directory.home(environment(tmp_path))
    home.rmdir()
    home.symlink_to(tmp_path)
    with pytest.raises(InvalidSettings):
        directory.home(environment(tmp_path))


def test_generations_ascend(tmp_path: Path) -> None:
    """Every requested scale has a higher number than the one before, and than what an earlier run has used."""
    with directory.create_run(Path("a.py"), "t", tmp_path, 2, environment(tmp_path)) as made:
        assert made.request(3) == DesiredScale(2, 3)
        assert made.request(4, "Fluid", 8, False, above=9) == DesiredScale(10, 4, "Fluid", 8, False)
        assert made.supersede(9).generation == 10
        assert made.supersede(10) == DesiredScale(11, 4, "Fluid", 8, False)


def a_dataflow(**changes: object) -> models.Dataflow:
    """A dataflow that has settled on a local target of generation 2."""
    target = models.Target(
        owner="local",
        generation=2,
        workers=[0, 1, 2],
        strategy="Fluid",
        batch_size=1,
        pre_copy=True,
        latency_target_seconds=None,
        effective_workers=[0, 1, 2],
        settled=True,
    )
    whole = models.Dataflow(state=models.State.RUNNING, epoch=1, route_version=1, target=target)
    return whole.model_copy(update=changes)


def test_a_scale_settles_with_its_own_generation_only(tmp_path: Path) -> None:
    """Waiting ends when the target of that number or a later one has settled, not when an earlier one has."""
    with directory.create_run(Path("a.py"), "t", tmp_path, 2, environment(tmp_path)) as made:
        scale = made.request(3)
        assert settled(made, a_dataflow(), scale)
        assert not settled(made, a_dataflow(target=None), scale)
        later = made.request(3)
        assert not settled(made, a_dataflow(), later)


def test_a_scale_that_cannot_settle_ends_the_wait(tmp_path: Path) -> None:
    """A refusal, a later request and the end of the query are reported at once, without a wait."""
    with directory.create_run(Path("a.py"), "t", tmp_path, 2, environment(tmp_path)) as made:
        scale = made.request(3)
        with pytest.raises(RunFailed, match="stopped"):
            settled(made, a_dataflow(state=models.State.STOPPED), scale)
        made.set_status(ScaleStatus(scale.generation, refused="too many"))
        with pytest.raises(MigrationRefused, match="too many"):
            settled(made, a_dataflow(), scale)
        made.request(5)
        with pytest.raises(MigrationRefused, match="then 5"):
            settled(made, a_dataflow(), scale)


@pytest.mark.parametrize("command", ["status", "bins", "migrations", "cancel", "scale 3"])
def test_commands_without_a_run_show_how_to_start_one(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command ends with status 1 and a line with the command that starts a run."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert cli.main(command.split()) == 1
    assert "binshift run app.py" in capsys.readouterr().err


def test_a_program_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """`binshift run` of a missing program ends before anything is started."""
    assert cli.main(["run", "no-such.py"]) == 1
    assert "no-such.py" in capsys.readouterr().err


def test_the_address_is_missing_until_the_program_has_said_it(tmp_path: Path) -> None:
    """A run without an address is listed, and reports it."""
    with directory.create_run(Path("a.py"), "t", tmp_path, 2, environment(tmp_path)) as made:
        assert RunDirectory(made.path).run.url is None
        assert made.scale_status is None


def test_the_address_of_the_page_has_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`binshift page` prints an address that opens the page without further input, once the program has its API."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with directory.create_run(Path("clicks.py"), "secret", tmp_path, 2, os.environ) as made:
        assert cli.main(["page"]) == 1
        made.publish("http://127.0.0.1:1")
        assert cli.main(["page"]) == 0
        assert capsys.readouterr().out == "http://127.0.0.1:1/#token=secret\n"
