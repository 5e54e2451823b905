"""What every dashboard has: variables for namespace and name, and panels with a description and a unit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import shipped

BOARDS = pytest.mark.parametrize("path", shipped.DASHBOARDS, ids=lambda path: path.stem)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


def lists(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A dashboard and its panels."""
    board = shipped.dashboard(path)
    return board, shipped.panels(board)


def test_there_are_two() -> None:
    """One dashboard is of a dataflow, one of the operator; each has a name of its own."""
    boards = [shipped.dashboard(path) for path in shipped.DASHBOARDS]
    assert [path.stem for path in shipped.DASHBOARDS] == ["dataflow", "operator"]
    assert len({board["uid"] for board in boards}) == len({board["title"] for board in boards}) == 2


@BOARDS
def test_its_place_is_variable(path: Path) -> None:
    """The data source, the namespace and (of a dataflow) the dataflow are chosen, and everything goes by them."""
    board, panels = lists(path)
    names = [each["name"] for each in board["templating"]["list"]]
    assert names == ["datasource", "namespace", *(["dataflow"] if path.stem == "dataflow" else [])]
    targets = [target for panel in panels for target in panel["targets"]]
    asking = [*panels, *targets, *board["annotations"]["list"], *board["templating"]["list"][1:]]
    assert all(each["datasource"] == SOURCE for each in asking)
    for name in names[1:]:
        assert [t["expr"] for t in targets if f"${name}" not in t["expr"]] == []


@BOARDS
def test_panels_speak_for_themselves(path: Path) -> None:
    """Each panel has a title of its own, a description in sentences, a unit, and names for its lines."""
    _, panels = lists(path)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert re.fullmatch(r"[A-Z].*\.", panel["description"]), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]


@BOARDS
def test_panels_do_not_overlap(path: Path) -> None:
    """No two panels share a place or an id, and none reaches over the edge."""
    board, _ = lists(path)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= COLUMNS, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_migrations_are_marked() -> None:
    """On the dataflow's dashboard the time of a migration is marked in every panel."""
    board, _ = lists(shipped.CHART / "dashboards" / "dataflow.json")
    (mark,) = board["annotations"]["list"]
    assert mark["enable"]
    assert "binshift_migration_phase" in mark["expr"]
