"""The demo's command line is read, and fails with a message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binshift.errors import InvalidSettings
from flights_demo import command

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "flights" / "demo.py"


def test_it_is_a_program_that_explains_itself() -> None:
    """The program runs from any folder, without more on the path than the installed packages."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(SCRIPT), "--help"]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: demo.py")


@pytest.mark.parametrize("given", [["--rows", "0"], ["--workers", "2,x"]])
def test_wrong_command_line(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line ends with status 2 and an error on stderr."""
    with pytest.raises(SystemExit) as ended:
        command.main(given)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_failures_become_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo's failures end as those of `binshift` do: a line on stderr and an exit status."""

    def fail(*_: object) -> None:
        raise InvalidSettings("no flights")

    monkeypatch.setattr(command, "show", fail)
    assert command.main([]) == 1
    assert capsys.readouterr().err.count("no flights\n") == 1


def test_demo_options(tmp_path: Path) -> None:
    """The demo's options are read, with their defaults."""
    options = command.parse(["--seconds", "20", "--workers", "1,3", "--plot", str(tmp_path / "x.png")])
    assert (options.seconds, options.rows, options.workers) == (20.0, None, (1, 3))
    assert command.parse([]).workers == (2, 4, 3)


@pytest.mark.parametrize("plot", ["plot.pdf", "no/such/folder/x.png"])
def test_plot_that_could_not_be_written_is_refused(plot: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A plot that could not be written in the end is refused in the beginning."""
    with pytest.raises(SystemExit):
        command.parse(["--plot", plot])
    assert plot in capsys.readouterr().err
