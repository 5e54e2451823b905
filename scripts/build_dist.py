"""Builds wheel and sdist of the last commit, and checks them: `make dist`.

What is built is the commit, not the working tree. It is built twice, from copies in different folders with different times and modes;
both results must be equal to the last byte. The wheel, which is built from the sdist, must have exactly the files that git has in the two
packages. Then it is installed for every Python that is found, in an environment outside the checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent
ROOTS = ("operator/", "runtime/")
"""Import roots; a wheel has what is in the packages below them."""
PACKAGES = tuple(f"{root}{name}/" for root, name in zip(ROOTS, ("binshift_operator", "binshift"), strict=True))

PLUGIN = "kubectl"
"""The extra for `kubectl binshift` alone."""


class Refused(Exception):
    """What was built is not what a release must be."""


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """The output of a command, without the settings of the checkout's own Python.

    Raises:
        Refused: it failed; with its output.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))} failed in {cwd}:\n{done.stdout}{done.stderr}")
    return done.stdout


def commit_time(commit: str) -> str:
    """The time of a commit: the time of all files of a release."""
    return run("git", "log", "-1", "--format=%ct", commit).strip()


def tracked(commit: str) -> set[str]:
    """The files of a commit."""
    return set(run("git", "ls-tree", "-r", "--name-only", commit).splitlines())


def export(folder: Path, commit: str, *, private: bool = False) -> None:
    """Copy the files of a commit to an empty folder, with the commit's time; or with the present time, for one user alone."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    run("git", "archive", "--output", archive, commit)
    run("tar", "--extract", "--file", archive, *(["--touch"] if private else []), cwd=folder)
    archive.unlink()
    if private:
        run("chmod", "--recursive", "go-rwx", ".", cwd=folder)


def build(source: Path, target: Path, time: str) -> list[Path]:
    """Build the sdist of a folder, and the wheel from the sdist, with the pinned tools of this environment alone."""
    command: list[str | Path] = [
        BIN / "uv",
        "build",
        "--quiet",
        "--offline",
        "--no-build-isolation",
        "--python",
        BIN / "python",
    ]
    run(*command, "--out-dir", target, source, SOURCE_DATE_EPOCH=time)
    return sorted([*target.glob("*.whl"), *target.glob("*.tar.gz")])


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def built_twice(work: Path, commit: str) -> list[Path]:
    """Build a commit from two copies.

    Raises:
        Refused: the results differ.
    """
    results = list[list[Path]]()
    for name, private in (("first", False), ("second-copy", True)):
        export(work / name, commit, private=private)
        results.append(build(work / name, work / f"{name}-built", commit_time(commit)))
    first, second = ({path.name: digest(path) for path in paths} for paths in results)
    if first != second or len(first) != 2:
        raise Refused(f"two builds of one commit differ: {first}, {second}")
    return results[0]


def unexpected_in_wheel(names: Iterable[str], files: Collection[str]) -> list[str]:
    """The files that a wheel has and should not have (+), or the reverse (-); ``files`` are those of the commit."""
    wanted = {file.partition("/")[2] for file in files if file.startswith(PACKAGES)}
    found = {name for name in names if ".dist-info/" not in name}
    return sorted([*(f"+{name}" for name in found - wanted), *(f"-{name}" for name in wanted - found)])


def unexpected_in_sdist(names: Iterable[str], files: Collection[str]) -> list[str]:
    """The files that an sdist has and the commit does not (+), or that the wheel is built from and are missing (-)."""
    found = {name.partition("/")[2] for name in names} - {"PKG-INFO"}
    needed = {file for file in files if file.startswith(PACKAGES)}
    return sorted([*(f"+{name}" for name in found - set(files)), *(f"-{name}" for name in needed - found)])


def check_contents(wheel: Path, sdist: Path, commit: str) -> None:
    """Compare both with the files of the commit.

    Raises:
        Refused: a file is missing or does not belong there.
    """
    files = tracked(commit)
    with zipfile.ZipFile(wheel) as packed, tarfile.open(sdist) as source:
        wrong = unexpected_in_wheel(packed.namelist(), files)
        wrong += unexpected_in_sdist((each.name for each in source if each.isfile()), files)
    if wrong:
        raise Refused(f"the files are not those of the commit: {', '.join(wrong[:20])}")


def supported_pythons() -> list[str]:
    """The versions that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)


def python_of(version: str) -> str | None:
    """The path of a Python on this machine, on the PATH, of uv or of pyenv; None if there is none. Nothing is downloaded."""
    try:
        return run(BIN / "uv", "python", "find", "--no-python-downloads", "--system", version).strip()
    except Refused:
        versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
        return next((str(each) for each in versions.glob(f"{version}.*/bin/python")), None)


def check_installed(wheel: Path, python: str, extra: str, work: Path) -> None:
    """Install the wheel where nothing else is, and use it.

    Raises:
        Refused: it cannot be installed, imported or called.
    """
    version = wheel.name.split("-")[1]
    environment = work / "venv"
    run(BIN / "uv", "venv", "--quiet", "--clear", "--no-config", "--python", python, environment, cwd=work)
    wanted = f"{wheel}[{extra or PLUGIN}]"
    constraint = ROOT / "requirements" / f"{extra or 'runtime'}.txt"
    command: list[str | Path] = [BIN / "uv", "pip", "install", "--quiet", "--no-config"]
    run(*command, "--python", environment / "bin" / "python", "--constraint", constraint, wanted, cwd=work)
    program = environment / "bin" / "binshift"
    if run(program, "--version", cwd=work).strip() != f"binshift {version}" or "usage:" not in run(
        program, "--help", cwd=work
    ):
        raise Refused(f"{program} is not binshift {version}")
    if extra != "operator":
        run(environment / "bin" / "kubectl-binshift", "--help", cwd=work)
    names = "binshift, binshift_operator" + (", binshift.spark.frontend.installing" if extra == "runtime" else "")
    where = run(environment / "bin" / "python", "-c", f"import {names}; print(binshift.__file__)", cwd=work).strip()
    if not Path(where).is_relative_to(environment):
        raise Refused(f"binshift was imported from {where}")


def last_commit() -> str:
    """The commit that is built, whatever is committed meanwhile."""
    return run("git", "rev-parse", "HEAD").strip()


def make(commit: str, extra: str = "") -> list[Path]:
    """Build, check, and put the results into `DIST`.

    Raises:
        Refused: a check failed; `DIST` is unchanged.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        sdist, wheel = sorted(built_twice(work, commit), key=lambda path: path.suffix)
        _say("two builds are equal")
        check_contents(wheel, sdist, commit)
        _say("the files are those of the commit")
        run(BIN / "twine", "check", "--strict", wheel, sdist)
        _say("twine finds nothing")
        pythons = {version: python_of(version) for version in supported_pythons()}
        if not any(pythons.values()):
            raise Refused(f"none of Python {', '.join(pythons)} is on this machine")
        for version, python in pythons.items():
            if python:
                check_installed(wheel, python, extra, work)
            _say(f"Python {version}: {'installed and called' if python else 'not on this machine, not checked'}")
        DIST.mkdir(exist_ok=True)
        for old in DIST.glob("binshift-*"):
            old.unlink()
        made = [Path(shutil.copy(path, DIST)) for path in (wheel, sdist)]
    for path in made:
        _say(f"{path.relative_to(ROOT)}  {path.stat().st_size} bytes  sha256 {digest(path)}")
    return made


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status is 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--extra", default="", choices=["", "runtime", "operator"], help="install with this extra (kubectl)"
    )
    try:
        make(last_commit(), parser.parse_args(arguments).extra)
    except Refused as error:
        sys.stderr.write(f"binshift: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
