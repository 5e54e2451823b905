"""The command line finds its commands, and fails with messages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from binshift import cli
from binshift.errors import InvalidSettings
from binshift.log.tools import inspect


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`binshift --help` lists each command with a description."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(f"  {name}" in shown and text in shown for name, (_, text) in cli.COMMANDS.items())


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each listed command exists and has help under its own name."""
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: binshift {name}")


@pytest.mark.parametrize("given", [[], ["nonsense"], ["run", "--workers", "0", "x"], ["scale", "x"]])
def test_wrong_command_line(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line ends with status 2 and prints the correct usage on stderr."""
    with pytest.raises(SystemExit) as ended:
        cli.main(given)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_log_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`binshift log verify` of a folder without a log ends with status 1 and a message, not with a traceback."""
    assert cli.main(["log", "verify", str(tmp_path)]) == 1
    assert "Traceback" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raised", "status", "message"),
    [(InvalidSettings("no flights"), 1, "no flights"), (KeyboardInterrupt(), 130, "interrupted")],
)
def test_failures_become_a_line(
    raised: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A binshift error, or an interrupt, is one line on stderr and an exit status."""

    def fail(arguments: object) -> int:
        raise raised

    monkeypatch.setattr(inspect, "main", fail)
    assert cli.main(["log"]) == status
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ini", ["init"]),
        ("run --wor", ["--workers"]),
        ("scale 4 --wa", ["--wait"]),
        ("log ", ["inspect", "verify"]),
        ("run ", []),
        ("nonsense -", []),
    ],
)
def test_the_shell_completes(line: str, offered: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """bash offers commands, options after a dash, and fixed arguments; files are left to bash."""
    assert cli.main(["completion", "bash"]) == 0
    words = f"COMP_WORDS=(binshift {line.rstrip()} {'' if line[-1] != ' ' else chr(39) * 2})"
    asked = f'{words}\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_binshift\necho "${{COMPREPLY[@]}}"\n'
    script = capsys.readouterr().out + asked
    done = subprocess.run(["bash", "-u"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that needs a package which is not installed names it, and how to install it."""
    monkeypatch.setitem(cli.COMMANDS, "log", ("no_such_package.inspect:main", ""))
    assert cli.main(["log", "verify", "x"]) == 1
    assert (
        capsys.readouterr().err == "binshift log: no_such_package is not installed: pip install 'binshift[runtime]'\n"
    )
