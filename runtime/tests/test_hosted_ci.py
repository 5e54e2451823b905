"""Hosted CI and commit hooks run targets of the Makefile and nothing else, with the least permissions and pinned actions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.y*ml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
WRITES = {"release.yml": {"publish": {"contents", "id-token", "packages"}}}
"""What a job of a workflow writes with its token; all others only read."""


def load(path: Path) -> dict[str, Any]:
    """A YAML file. The key `on` is a boolean in YAML 1.1."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def commands(workflow: dict[str, Any]) -> list[str]:
    """What a workflow runs, for each value of its matrix."""
    found = []
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            name = re.search(r"\$\{\{ matrix\.(\w+) \}\}", step.get("run", ""))
            values = matrix[name[1]] if name else [""]
            found += [step["run"].replace(name[0] if name else "\0", value) for value in values if "run" in step]
    return found


def problems_of_command(command: str, targets: set[str]) -> list[str]:
    """What in a command is no target or variable of make."""
    program, *arguments = command.split(" ")
    wrong = [] if program == "make" and arguments else [command]
    return wrong + [each for each in arguments if each not in targets and not re.fullmatch(r"[A-Z_]+=[\w.-]+", each)]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_make_alone(path: Path) -> None:
    """Every command of a workflow is make with targets that exist."""
    found = commands(load(path))
    assert found
    assert [problem for command in found for problem in problems_of_command(command, TARGETS)] == []


@pytest.mark.parametrize("command", ["make chekc", "make check && rm x", "pytest", "make", "make check\npip install x"])
def test_another_command_is_found(command: str) -> None:
    """A target that does not exist, and any other command, is a problem."""
    assert problems_of_command(command, TARGETS) != []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_permissions_are_the_least(path: Path) -> None:
    """A token reads the repository, and writes only what a release needs; secrets are passed to the registry's login alone."""
    workflow = load(path)
    assert workflow["permissions"] == {"contents": "read"}
    written = {
        name: {what for what, kind in job["permissions"].items() if kind == "write"}
        for name, job in workflow["jobs"].items()
        if "permissions" in job
    }
    assert written == WRITES.get(path.name, {})
    assert "pull_request_target" not in path.read_text(encoding="utf-8")
    steps = [step for job in workflow["jobs"].values() for step in job["steps"] if "secrets." in str(step)]
    assert [step["uses"].partition("@")[0] for step in steps] == ["docker/login-action"] * (path.name in WRITES)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(path: Path) -> None:
    """Every action is a commit, with its version in a comment; a checkout keeps no token; every job has a time limit and a certain system."""
    jobs = load(path)["jobs"].values()
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert [
        each for each in used if not re.fullmatch(r"(actions|docker)/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)
    ] == []
    checkouts = [step for job in jobs for step in job["steps"] if "actions/checkout@" in step.get("uses", "")]
    assert len(checkouts) == len(jobs)
    assert [step for step in checkouts if step["with"] != {"persist-credentials": False}] == []
    assert [job for job in jobs if not job["timeout-minutes"] or "latest" in job["runs-on"]] == []


def test_every_supported_python_is_tested() -> None:
    """The matrix has the versions of pyproject.toml, and so do the builds that install the wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
    jobs = load(GITHUB / "workflows" / "ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == supported
    steps = [*jobs["dist"]["steps"], *load(GITHUB / "workflows" / "release.yml")["jobs"]["build"]["steps"]]
    installed = [step["with"]["python-version"].split() for step in steps if "setup-python" in step.get("uses", "")]
    assert installed == [supported[::-1]] * 2  # the last one is the default


def test_every_supported_platform_is_tested() -> None:
    """The versions of Java and the architectures of the compatibility page are in the jobs that run the tests."""
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    versions = re.search(r"(?m)^\| Java \| (.+) \|$", page)
    assert versions
    jobs = load(GITHUB / "workflows" / "ci.yml")["jobs"]
    tested = {
        ("ubuntu-24.04", "17"),
        *((each["system"], each["java"]) for each in jobs["platform"]["strategy"]["matrix"]["include"]),
    }
    assert {java for _, java in tested} == set(versions[1].split(", "))
    assert {system.endswith("-arm") for system, _ in tested} == {"on x86-64 or arm64" in page, False}


def test_everything_that_check_runs_is_run() -> None:
    """The jobs of a pull request are the parts of `make check`, the chart, the page, the site, the coverage and the package."""
    found = {command.split(" ")[1] for command in commands(load(GITHUB / "workflows" / "ci.yml"))}
    assert found == {"static", "test", "test-unit", "test-cluster", "chart", "page", "docs", "coverage", "dist"}


def test_commit_hooks_call_make() -> None:
    """Hooks before a commit are local, and call targets that exist."""
    (local,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    entries = [hook["entry"] for hook in local["hooks"]]
    assert entries == ["make format-check", "make lint"]
    assert [problem for entry in entries for problem in problems_of_command(entry, TARGETS)] == []


@pytest.mark.parametrize("path", sorted((GITHUB / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.name)
def test_issue_forms_are_complete(path: Path) -> None:
    """A form has a name, a description, and fields with ids and labels, at least one of them required."""
    form = load(path)
    assert form["name"]
    assert form["description"]
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)
    assert any(each.get("validations", {}).get("required") for each in fields)
