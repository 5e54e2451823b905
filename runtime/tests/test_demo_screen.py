"""The demo's screen and report show what happened."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from binshift.model import Epoch
from flights_demo import picture, report
from flights_demo.latency_log import LatencyLog
from flights_demo.replay import Schedule
from flights_demo.scenario import Step, plan_steps
from flights_demo.screen import LineScreen, LiveScreen, Move, View, line, screen_for, table, worker_state
from openloop import Latency

VIEW = View(
    seconds=12.3,
    rows=5000,
    rows_total=20_000,
    rate=1234.5,
    epoch=17,
    latency=Latency(0.25, 0.75, 1.0, 100),
    bins=(3, 3, 2),
    wanted=4,
    running=(0, 1, 2, 3),
    move=Move("2 → 4 workers", "copying", 2, 3, 4, 1.5),
    routes=[("EWR-JAC", 120, 30.5)],
)


def _shown(view: View) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(table(view))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_table_and_line_agree() -> None:
    """Both forms show the epoch, the rows, the latency, the bins and the migration."""
    for text in (_shown(VIEW), line(VIEW)):
        for part in ("17", "5,000", "0.25 s", "0.75 s", "2 → 4 workers", "copying", "2/4 bins"):
            assert part in text
    assert "EWR-JAC" in _shown(VIEW)


def test_worker_states() -> None:
    """A worker without bins is starting if it is wanted and leaving if it is not; a stopped one is not shown."""
    shrinking = View(**(vars(VIEW) | {"wanted": 2, "running": (0, 1, 2), "move": None}))
    assert [worker_state(VIEW, slot) for slot in range(4)] == ["working", "working", "working", "coming"]
    assert [worker_state(shrinking, slot) for slot in range(4)] == ["working", "working", "leaving", ""]


def test_nothing_known_yet_can_be_shown() -> None:
    """The first moment, without epoch, bins or latency, has its table and its line."""
    nothing = Latency(math.nan, math.nan, math.nan, 0)
    first = View(0.0, 0, 1, 0.0, -1, nothing, (), 2, (0, 1), Move("1 → 2 workers", "planned", 0, 0, 0, 0.0))
    assert "planned" in _shown(first)
    assert "p99 -" in line(first)


def test_lines_where_there_is_no_terminal() -> None:
    """Without a terminal a line is printed every two seconds, without control characters."""
    console = Console(file=io.StringIO(), force_terminal=False)
    screen = screen_for(console)
    assert isinstance(screen, LineScreen)
    for seconds in (0.0, 0.5, 1.9, 2.0, 2.1):
        screen.show(View(**(vars(VIEW) | {"seconds": seconds})))
    screen.close()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("epoch") == 2
    assert "\x1b" not in text


def test_table_in_a_terminal() -> None:
    """In a terminal the tables stay in place, and the terminal is restored at the end."""
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    screen = screen_for(console)
    assert isinstance(screen, LiveScreen)
    screen.show(VIEW)
    screen.show_message("something")
    screen.close()
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "something" in text
    assert text.rstrip().endswith("\x1b[?25h")


SCHEDULE = Schedule(rows=200, seconds=18.0, tick_seconds=1.0, primers=2)


def _run() -> tuple[LatencyLog, list[Step]]:
    log = LatencyLog(SCHEDULE)
    for file in range(SCHEDULE.files):
        late = 2.0 if file in (9, 10) else 0.5
        at = max(SCHEDULE.due(file) + late, 0.0)
        log.commit(Epoch(file), at, [file], (4, 4) if file < 10 else (2, 2, 2, 2))
    steps = plan_steps([2, 4], 18.0)
    steps[0].asked_at, steps[0].settled_at, steps[0].bins = 7.0, 9.0, 4
    return log, steps


def test_report_compares_calm_with_change() -> None:
    """Rows due during a change are reported apart from the calm ones."""
    log, steps = _run()
    found = report.measure(SCHEDULE, log, steps, keys=7, differences=[])
    assert found.calm.max == pytest.approx(1.5)
    assert found.changes[0].latency.max == pytest.approx(3.0)
    assert found.changes[0].latency.rows + found.calm.rows == 180
    assert found.longest_gap_seconds == pytest.approx(2.5)


@pytest.mark.parametrize(("differences", "last"), [([], "RIGHT: all 7 keys"), (["1 keys missing: x"], "WRONG")])
def test_report_ends_with_the_verdict(differences: list[str], last: str) -> None:
    """The last line shows whether the state is right; if not, the differences come before it."""
    log, steps = _run()
    lines = report.lines(report.measure(SCHEDULE, log, steps, 7, differences))
    assert lines[-1].startswith(last)
    assert all(any(difference in text for text in lines) for difference in differences)


def test_numbers_are_valid_json(tmp_path: Path) -> None:
    """The numbers can be read by any JSON reader, what is not known as null, and hold every bucket and epoch."""
    log, steps = _run()
    path = tmp_path / "numbers.json"
    report.write_json(report.measure(SCHEDULE, log, steps, 7, []), log, path)
    assert "NaN" not in path.read_text()
    value = json.loads(path.read_text())
    assert value["right"] is True
    assert value["changes"][0]["bins"] == 4
    assert len(value["buckets"]["p99"]) == len(value["buckets"]["starts"]) > 0
    assert [entry["rows"] for entry in value["entries"]] == [10] * 20


def test_picture_is_drawn(tmp_path: Path) -> None:
    """The plot is a PNG file of a minimum size, even if nothing was measured."""
    pytest.importorskip("matplotlib", reason="the demo's requirements are not installed")
    log, steps = _run()
    for name, drawn in (("run.png", log), ("empty.png", LatencyLog(SCHEDULE))):
        picture.draw(drawn, steps, tmp_path / name, "a title")
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / name).stat().st_size > 5000
