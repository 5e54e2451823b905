"""The papers' experiments on NEXMark: figures of moves, command lines, and sections that exist only with results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmark_scripts import importable

from binshift.model import Bin, Worker

with importable():
    import plots
    from latency import Latencies
    from nexmark.__main__ import arguments
    from nexmark.figures import command, sections, spikes, ways
    from nexmark.figures.all import EXPERIMENTS
    from nexmark.figures.experiment import Experiment
    from nexmark.figures.failure import CALM, MOVING, SYSTEMS
    from nexmark.figures.failure import rows_of as rows_of_kills
    from nexmark.figures.loads import GROWING, LOADS
    from nexmark.figures.preparation import MEASURED
    from nexmark.figures.stage import Pace
    from nexmark.queries import QUERIES

from openloop import Span

ROUND = 30.0


def shots(names: list[str], late: Mapping[str, list[float]]) -> tuple[Latencies, list[spikes.Shot]]:
    """Epochs of half a second, with record latencies up to 0.6 s; and one move each 30 s whose worst record is as late as given."""
    spans, made = [], []
    at = 0.0
    for number in range(max(len(each) for each in late.values())):
        for name in names:
            if number >= len(late[name]):
                continue
            made.append(spikes.Shot(name, at + 2.0, at + 10.0, at + 13.0, at + 22.0, {"extra": number}))
            spans += [Span(at + step / 2, at + step / 2 + 0.5, at + step / 2 + 0.6) for step in range(20)]
            spans.append(Span(at + 10.0, at + 12.0, at + 10.0 + late[name][number]))
            spans += [Span(at + step / 2, at + step / 2 + 0.5, at + step / 2 + 0.6) for step in range(26, 60)]
            at += ROUND
    return Latencies(spans), made


def test_a_spike_is_over_the_calm_times_of_the_whole_run() -> None:
    """Median and worst are of one way's moves; calm times are those before and after all moves."""
    found, made = shots(["a", "b"], {"a": [3.0, 6.0, 2.4], "b": [9.0]})
    row = spikes.together(found, [shot for shot in made if shot.way == "a"], made)
    assert (row["moves"], row["calm_p50_s"], row["calm_p99_s"]) == (3, pytest.approx(0.475), pytest.approx(0.6))
    assert (row["worst_median_s"], row["worst_s"]) == (pytest.approx(3.0), pytest.approx(6.0))
    assert (row["spike_median"], row["spike_worst"]) == (pytest.approx(5.0), pytest.approx(10.0))
    assert (row["extra"], row["_took"], row["seconds"]) == (0, 3.0, 3.0)
    assert max(latency for _, latency in row["_latency"]) == pytest.approx(3.0)


def test_recovery_ends_with_the_first_record_that_is_early_again() -> None:
    """It begins with the failure, also for records that were due before; without a late record it took no time."""
    calm = [Span(at / 2, at / 2 + 0.5, at / 2 + 0.6) for at in range(20)]
    broken = [Span(10.0, 14.0, 14.5)]
    after = [Span(at / 2, at / 2 + 0.5, at / 2 + 0.6) for at in range(28, 40)]
    found = Latencies([*calm, *broken, *after])
    assert spikes.recovered(found, 0.6, 11.0) == pytest.approx(3.0)
    assert spikes.recovered(Latencies([*calm, *broken]), 0.4, 11.0) == math.inf
    assert spikes.recovered(found, 5.0, 11.0) == 0.0


def test_a_kill_is_compared_with_the_calm_times_before_it() -> None:
    """What happened between the calm time and the kill, such as a move, does not count as calm."""
    calm = [Span(at / 2, at / 2 + 0.5, at / 2 + 0.6) for at in range(20)]
    moving, broken = Span(10.0, 11.5, 12.0), Span(11.5, 14.0, 14.5)
    after = [Span(at / 2, at / 2 + 0.5, at / 2 + 0.6) for at in range(28, 40)]
    kill = spikes.Shot(MOVING, 10.0, 12.2, 15.0, 18.0, {"moved_before": 2})
    shots = [(spikes.Shot(name, 2.0, 10.0, 10.0, 10.0), replace(kill, way=name)) for name in (CALM, MOVING)]
    first, second = rows_of_kills(Latencies([*calm, moving, broken, *after]), (CALM, MOVING), shots)
    assert (first["strategy"], second["strategy"]) == (CALM, MOVING)
    assert second["calm_p99_s"] == pytest.approx(0.6)
    assert (second["worst_s"], second["recovered_s"]) == (pytest.approx(3.0), pytest.approx(1.8))
    assert second["moved_before"] == 2


class Query:
    """A query whose route changes at once."""

    def __init__(self, bins: int) -> None:
        self.route = SimpleNamespace(bins=bins, owners=[bin % ways.WORKERS for bin in range(bins)])
        self.phase, self.options = "settled", list[Any]()

    def move(self, moves: Mapping[Bin, Worker], **options: Any) -> Any:
        """As binshift's."""
        for bin, worker in moves.items():
            self.route.owners[bin] = int(worker)
        self.options.append(options)
        return SimpleNamespace(wait=lambda _: SimpleNamespace(value=self.phase), reason="a reason")


def test_a_quarter_of_the_bins_moves_away_and_back() -> None:
    """All workers own bins before, meanwhile and after; the measured move restores the owners."""
    query, shift = Query(64), ways.Rebalance()
    before = list(query.route.owners)
    shift.prepare(query, ways.OPTIMIZED)
    away = list(query.route.owners)
    assert sum(one != other for one, other in zip(before, away, strict=True)) == 16
    assert set(away) == set(before)
    shift.move(query, ways.ALL_AT_ONCE)
    assert query.route.owners == before
    assert query.options[1] == {"strategy": "AllAtOnce", "batch_size": 4, "pre_copy": False}


def test_a_move_that_fails_gives_no_figures() -> None:
    """The experiment ends with the reason."""
    query = Query(64)
    query.phase = "failed"
    with pytest.raises(RuntimeError, match="a move is failed: a reason"):
        ways.Rebalance().prepare(query, ways.OPTIMIZED)


def test_only_known_ways_are_measured() -> None:
    """A way that takes long is measured in the first round only."""
    assert [way.name for way in ways.chosen(["fluid", "batched"])] == ["fluid", "batched"]
    assert Pace(rounds=3).count(ways.chosen(["fluid", "all-at-once", "batched"])) == 1 + 2 + 3
    with pytest.raises(ValueError, match="no way to move is named 'fast'"):
        ways.chosen(["fast"])


def test_state_grows_with_the_load_and_the_rate_does_not() -> None:
    """Events before the start, events of a window and open auctions grow alike."""
    small, large = GROWING["q8"], GROWING["q8"].times(32)
    assert (large.prefill, large.config.rate) == (32 * small.prefill, 32 * small.config.rate)
    assert large.config.in_flight_auctions == 32 * small.config.in_flight_auctions
    assert large.rate == small.rate
    assert set(GROWING) < set(LOADS) < set(QUERIES)


@pytest.mark.parametrize("given", [["latency", "q1"], ["state", "q4"], ["failure", "q99"], ["bins", "--query", "q0"]])
def test_only_queries_with_a_load_are_measured(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists them."""
    with pytest.raises(SystemExit):
        arguments(given)
    assert "q3" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_short_run(name: str) -> None:
    """`--quick` changes what is not given, keeps no results, and moves fewer times."""
    usual, quick = arguments([name]), arguments([name, "--quick", "--settle-epochs", "7"])
    assert (quick.no_save, quick.rounds, quick.settle_epochs, usual.no_save) == (True, 1, 7, False)
    counted = [EXPERIMENTS[name].count(each, Pace(rounds=each.rounds)) for each in (usual, quick)]
    assert 0 < counted[1] < counted[0]


def rows_of(experiment: Experiment) -> list[dict[str, Any]]:
    """Results as a measurement gives them, of two sizes, with figures that were made up."""
    options = arguments([experiment.name])
    names = list(SYSTEMS) if experiment.name == "failure" else [*ways.WAYS, MEASURED[1].name, "spark"]
    found, made = shots(names, {name: [1.0 + number, 2.0] for number, name in enumerate(names)})
    more: dict[str, Any] = {
        "calm_over_first": 1.0,
        "peak_over_first": 1.1,
        "recovered_s": 2.0,
        "recovered_worst_s": 3.0,
    }
    more |= {"more_own_memory": 0.1, "own_mib_before": 10, "own_mib_max": 11, "_memory": [(0.0, 10), (1.0, 11)]}
    more |= {"stop_s": None, "rewrite_s": None, "moved_before": 1}
    return [
        {"query": getattr(options, "query", "q3"), "times": size, "bins": 512 * size, "rate": size, "strategy": name}
        | {"state_rows": 1000 * size, "state_mib": 1.5}
        | spikes.together(found, [shot for shot in made if shot.way == name], made)
        | more
        | {"_date": "2026-11-26 00:00", "_commit": "abc", "_elsewhere": 0.0}
        for size in (1, 32)
        for name in names
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_become_a_section_with_a_plot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding, method, a sentence from the figures, every column, and the plot, which can be drawn."""
    pytest.importorskip("matplotlib", reason="the demo's requirements are not installed")
    experiment = EXPERIMENTS[name]
    rows = rows_of(experiment)
    monkeypatch.setattr(sections, "load", lambda wanted: rows if wanted == experiment.archive else [])
    found = sections.sections()
    assert found.count("### ") == 1
    assert f"images/nexmark-{name}.png" in found
    assert " ".join(experiment.finding.split()) in " ".join(found.split())
    assert "not measured" not in experiment.sentence(rows)
    assert "a move takes 3.00 s" in command.brief(experiment, rows[0])
    assert [column for column in experiment.columns if all(row.get(column, "") == "" for row in rows)] == []
    assert plots.plotted(experiment.paint, rows, tmp_path / "x.png").stat().st_size > 1000


def test_a_section_needs_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any results, one sentence stands for all."""
    monkeypatch.setattr(sections, "load", lambda _: [])
    assert sections.sections() == "*None of them is measured yet on a quiet machine.*"
    assert all(f"| `{name}` |" in sections.described() for name in EXPERIMENTS)
