"""Drawing a dashboard: the queries to Prometheus, the places of panels, the format of values; and that every panel can be drawn."""

from __future__ import annotations

import doctest
import json
import math
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import shipped

sys.path.append(str(shipped.CHARTS.parent / "scripts"))

import draw_dashboard
import panel_painters
import prometheus_ranges
from prometheus_ranges import Prometheus, Span, Unanswered

START, STEP = 1_000.0, 10.0
LABELS = {
    "le": "+Inf",
    "phase": "copying",
    "worker": "1",
    "pod": "clicks-executor-1",
    "state": "Running",
    "reason": "Children",
}
REFUSED = "binshift_refused"


@pytest.fixture
def server() -> Iterator[Any]:
    """A Prometheus that has one series for each question, of ones with a gap, and records its requests."""

    requests: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            call = {name: values[0] for name, values in urllib.parse.parse_qs(body).items()}
            requests.append((self.path, call))
            if call["query"] == REFUSED:
                self._answer(400, {"error": "no such thing"})
            elif self.path.endswith("range"):
                points = [[START + at * STEP, "1"] for at in (0, 1, 3)]
                self._answer(200, {"data": {"result": [{"metric": LABELS, "values": points}]}})
            else:
                self._answer(200, {"data": {"result": [{"metric": LABELS, "value": [START, "2.5"]}]}})

        def _answer(self, status: int, answer: Any) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """No calls are logged."""

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    served.requests = requests  # type: ignore[attr-defined]
    yield served
    served.shutdown()
    served.server_close()


def url(server: Any) -> str:
    """Where it is."""
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_lines_have_gaps_where_nothing_is_known(server: Any) -> None:
    """Points are placed in time, and what is missing is missing; a refusal names the question."""
    prometheus, span = Prometheus(url(server)), Span(START, START + 40, STEP)
    (line,) = prometheus.lines("up", span)
    assert [math.isnan(value) for value in line.values] == [False, False, True, False, True]
    assert (line.last, line.labels["phase"]) == (1.0, "copying")
    assert server.requests == [
        ("/api/v1/query_range", {"query": "up", "start": "1000.0", "end": "1040.0", "step": "10.0"})
    ]
    with pytest.raises(Unanswered, match=REFUSED):
        prometheus.lines(REFUSED, span)


def test_unreachable_prometheus_is_reported(server: Any) -> None:
    """A Prometheus that is not there is named."""
    address = url(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(Unanswered, match=address):
        Prometheus(address).at("up", START)


@pytest.mark.parametrize("path", shipped.DASHBOARDS, ids=lambda path: path.stem)
def test_every_question_is_filled_in(server: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each panel and annotation is queried, without a variable left; `$__rate_interval` follows from step and scrapes."""
    drawn: list[Any] = []
    monkeypatch.setattr(draw_dashboard, "draw", lambda *given: drawn.append(given))
    options = ["--prometheus", url(server), "--dashboard", str(path), "--out", "x.png", "--namespace", "shop"]
    span = ["--start", f"{START}", "--end", f"{START + 40}", "--step", f"{STEP}", "--scrape-seconds", "5"]
    assert draw_dashboard.main([*options, *span, "--dataflow", "clicks"]) == 0
    queries = [call["query"] for _, call in server.requests]
    assert not [text for text in queries if "$" in text]
    assert any("[20s]" in text for text in queries)
    ((panels, shown, marked, _, out),) = drawn
    assert all(bool(lines) == (panel["type"] != "row") for panel, lines in zip(panels, shown, strict=True))
    assert marked == ([(0.0, 20.0), (30.0, 40.0)] if path.stem == "dataflow" else [])
    assert out == Path("x.png")


def test_single_rows_move_up() -> None:
    """Of a dashboard only the panels below some lines are drawn, with nothing above them."""
    board = shipped.dashboard(shipped.CHART / "dashboards" / "dataflow.json")
    found = draw_dashboard.chosen_panels(board, ["Epochs", "State"])
    lines = [panel["title"] for panel in found if panel["type"] == "row"]
    assert lines == ["Epochs", "State"]
    assert min(panel["gridPos"]["y"] for panel in found) == 0
    assert len(draw_dashboard.chosen_panels(board, [])) == len(board["panels"])


@pytest.mark.parametrize("path", shipped.DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_a_painter(path: Path) -> None:
    """There is no kind of panel in a dashboard that cannot be drawn."""
    kinds = {panel["type"] for panel in shipped.panels(shipped.dashboard(path))}
    assert kinds <= panel_painters.PAINTERS.keys()


@pytest.mark.parametrize("module", [draw_dashboard, panel_painters, prometheus_ranges], ids=lambda each: each.__name__)
def test_examples_are_right(module: Any) -> None:
    """The doctests of the script pass."""
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


@pytest.mark.parametrize("path", shipped.DASHBOARDS, ids=lambda path: path.stem)
def test_a_picture_is_drawn(server: Any, path: Path, tmp_path: Path) -> None:
    """A dashboard becomes a PNG, where matplotlib is installed."""
    pytest.importorskip("matplotlib")
    out = tmp_path / "board.png"
    options = ["--prometheus", url(server), "--dashboard", str(path), "--out", str(out)]
    assert draw_dashboard.main([*options, "--start", f"{START}", "--end", f"{START + 40}", "--step", f"{STEP}"]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_prometheus_that_is_not_there_is_no_traceback(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with 1 and one line that names the server that does not answer."""
    address = url(server)
    server.shutdown()
    server.server_close()
    path = shipped.DASHBOARDS[0]
    assert draw_dashboard.main(["--prometheus", address, "--dashboard", str(path), "--out", "x.png"]) == 1
    assert address in capsys.readouterr().err
