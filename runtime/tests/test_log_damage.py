"""Thousands of damages to a log: each is named or has no effect; none gives a wrong result."""

from __future__ import annotations

import re

import pytest
from log_damage import ACTS, Damage, History, damaged, history, matters
from log_drivers import FORMAT
from log_worlds import DictStorage

from binshift.errors import LogError
from binshift.log.log import Log
from binshift.log.tools.verification import verify

DAMAGES, MANY = 500, 5000
SEEDS = (1, pytest.param(2, marks=pytest.mark.oracle))


@pytest.fixture(scope="module", params=SEEDS)
def log(request: pytest.FixtureRequest) -> History:
    """A log of each seed."""
    return history(request.param)


def opened(found: History, storage: DictStorage) -> tuple[str, str]:
    """The error of a driver about the files, and what is wrong with the state that it would build from them."""
    try:
        driver = Log.on(storage, FORMAT, spark_committed=lambda: found.last)
        return "\n".join(driver.warnings), found.wrong(storage, driver.index)
    except LogError as error:
        return str(error), ""


def named(damage: Damage, text: str) -> bool:
    """Whether the text names one of the damaged files."""
    return any(re.search(rf"(^|\s){re.escape(name)}", text) for name in damage.names)


def test_an_undamaged_log_has_a_file_of_every_kind(log: History) -> None:
    """The damages below are applied to all kinds, with garbage collected and old records deleted."""
    storage = DictStorage()
    storage.files = dict(log.files)
    kinds = {name.split("/")[0] for name in log.files}
    assert kinds == {"format.json", "terms", "records", "manifests", "deltas", "snapshots", "targets"}
    assert min(name for name in log.files if name.startswith("records/")) > "records/00000000000000000000.json"
    assert verify(storage) == []
    assert opened(log, storage) == ("", "")


def test_every_damage_is_named_or_makes_no_difference(log: History) -> None:
    """A driver continues only with the correct state; otherwise, or if it did without a file, it names that file."""
    assert play(log, range(DAMAGES)) == set(ACTS)


@pytest.mark.oracle
def test_many_damages(log: History) -> None:
    """The same holds for many seeds."""
    play(log, range(DAMAGES, MANY))


def play(log: History, seeds: range) -> set[str]:
    """Try one damage for each seed; returns the kinds of damage."""
    acts, refused = set(), 0
    for seed in seeds:
        storage, damage = damaged(log, seed)
        if not damage.names:
            continue
        acts.add(damage.act)
        files = dict(storage.files)
        reported, wrong = opened(log, storage)
        assert not wrong, f"damage {seed}: {damage.what}: a silent wrong result: {wrong}"
        refused += bool(reported)
        assert not reported or named(damage, reported), f"damage {seed}: {damage.what}: the error is {reported}"
        storage.files = files
        findings = "\n".join(f"{each.name} {each.message}" for each in verify(storage))
        if any(matters(log, name, damage.act) for name in damage.names):
            assert named(damage, findings), f"damage {seed}: {damage.what}: {findings or 'nothing found'}"
    assert refused > len(seeds) // 5
    return acts
