"""The cluster, the images and the chart once for all stories; a stage for each; one line a story at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator

import pytest

from clusters import ROOT, Cluster, bring_up
from dataflow import Dataflow
from stage import Stage, build_images, install, make_namespace, renew, stage, sweep, system
from story import Story
from waits import longest

# The operator has the table of valid and invalid objects, `scripts` the queries of dashboards.
sys.path += [str(ROOT / "operator" / "tests"), str(ROOT / "scripts")]

collect_ignore = ["workloads/inside/judge_flights.py"]
"""Runs in a pod only, where the module `reference` is next to it."""

LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """A cluster that is up and has the images."""
    found = bring_up()
    if "BINSHIFT_E2E_KEEP_IMAGES" not in os.environ:
        build_images(found)
    return found


@pytest.fixture(scope="session")
def chart(cluster: Cluster) -> None:
    """The operator, installed with the chart, as a user would."""
    kube = system(cluster)
    if cluster.own:
        sweep(kube)
    make_namespace(kube)
    install(kube)
    renew(kube)


@pytest.fixture
def scene(cluster: Cluster, chart: None) -> Iterator[Stage]:
    """A namespace for one story."""
    with stage(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def module_scene(cluster: Cluster, chart: None) -> Iterator[Stage]:
    """A namespace for all the tests of a file that leave nothing in it."""
    with stage(cluster) as made:
        yield made


@pytest.fixture
def running(scene: Stage) -> Dataflow:
    """The stage's dataflow: Ready, settled, and calm for some epochs."""
    return scene.calm()


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    """The story, whose line is printed at the end."""
    made = Story(request.node.name.removeprefix("test_"))
    yield made
    request.config.stash.setdefault(LINES, []).append(made.line or f"{made.name}: ended before its result")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A story that fails shows pods, events and logs while its stage still exists."""
    report = yield
    scene = getattr(item, "funcargs", {}).get("scene")
    if report.failed and call.when == "call" and scene is not None:
        report.sections.append(("output of kubectl", scene.why()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line)
    if longest():
        terminalreporter.write_line("\nlongest waits:\n" + "\n".join(longest()))
