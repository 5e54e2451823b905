"""The fault campaign with files as results: a driver dies, or is suspended, between recording and publishing an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults_cases import FILE_POINTS, Case, play
from faults_world import World
from test_cluster_faults import DRIVERS, RESULTS, worlds

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Short timeouts, capacity for several drivers, and a parquet sink."""
    yield from worlds(tmp_path_factory.mktemp("files"), quick=True, drivers=DRIVERS, files=True)


CORE = [Case("publish.chosen", "driver", stop=True), Case("publish.between", "driver")]
MORE = [case for point in FILE_POINTS for stop in (False, True) if (case := Case(point, "driver", stop)) not in CORE]


@pytest.mark.parametrize("case", CORE, ids=str)
def test_files_have_every_row_once(case: Case, files: World) -> None:
    """Every epoch's files have the reference's rows, including those of epochs published before the driver resumed."""
    RESULTS.append(play(files, case))
    files.check_all()


@pytest.mark.campaign
@pytest.mark.parametrize("case", MORE, ids=str)
def test_files_have_every_row_once_wherever_a_driver_is_hurt(case: Case, files: World) -> None:
    """The same holds at every point."""
    RESULTS.append(play(files, case))
    files.check_all()


def test_the_points_are_in_the_code() -> None:
    """Each of them occurs in the sinks."""
    sinks = Path(__file__).resolve().parents[2] / "binshift" / "spark" / "sinks"
    code = "".join(path.read_text() for path in sinks.glob("*.py"))
    assert [point for point in FILE_POINTS if f'"{point}"' not in code] == []
