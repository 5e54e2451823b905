"""`binshift init` writes files that are accepted where they are used, and overwrites none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from binshift import cli
from binshift.hosting.local import init


def test_the_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every file exists, the program compiles, nothing is left to be substituted, and the next commands are printed."""
    folder = tmp_path / "made" / "clicks"
    assert cli.main(["init", str(folder)]) == 0
    assert sorted(file.name for file in folder.iterdir()) == sorted(init.FILES)
    compile((folder / "program.py").read_text(), "program.py", "exec")
    assert 'queryName("clicks")' in (folder / "program.py").read_text()
    assert "FROM ${SPARK_IMAGE}\nCOPY program.py /app/\n" in (folder / "Dockerfile").read_text()
    assert "$" not in (folder / "dataflow.yaml").read_text()
    assert f"kubectl apply -f {folder}/dataflow.yaml" in capsys.readouterr().out


def test_the_working_folder_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the working folder itself the next commands begin without `cd`."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", ".", "--name", "clicks"]) == 0
    assert "cd " not in capsys.readouterr().out


def test_the_programs_test_passes(tmp_path: Path) -> None:
    """It runs on plain Spark, without a cluster."""
    init.create(tmp_path, "clicks")
    ran = subprocess.run([sys.executable, "-m", "pytest"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize("file", init.FILES)
def test_an_existing_file_stays(tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that exists is named, keeps its content, and no other one is written."""
    (tmp_path / file).write_text("mine")
    assert cli.main(["init", str(tmp_path), "--name", "clicks"]) == 1
    assert str(tmp_path / file) in capsys.readouterr().err
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "name", ["Clicks", "my_clicks", "-clicks", "clicks-", "1clicks", "klick\u00e9", "c" * 41, "a\n"]
)
def test_names_that_kubernetes_refuses(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a name is refused with the value and the option, before a folder is made."""
    assert cli.main(["init", str(tmp_path / "new"), f"--name={name}"]) == 1
    shown = capsys.readouterr().err
    assert repr(name) in shown
    assert "--name" in shown
    assert not (tmp_path / "new").exists()
