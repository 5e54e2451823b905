"""Thousands of damages to a log: each is named, or makes no difference; none gives a wrong answer."""

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
SEEDS = (1, 2)


@pytest.fixture(scope="module", params=SEEDS)
def log(request: pytest.FixtureRequest) -> History:
    """A log of each seed."""
    return history(request.param)


def opened(found: History, storage: DictStorage) -> tuple[str, str]:
    """What a driver says of the files, and what is wrong with what it would build from them."""
    try:
        driver = Log.on(storage, FORMAT, spark_committed=lambda: found.last)
        return "\n".join(driver.warnings), found.wrong(storage, driver.index)
    except LogError as error:
        return str(error), ""


def named(damage: Damage, text: str) -> bool:
    """Whether one of the damaged files is in it."""
    return any(re.search(rf"(^|\s){re.escape(name)}", text) for name in damage.names)


def test_an_undamaged_log_has_a_file_of_every_kind(log: History) -> None:
    """What is tried below is tried on all of them, with garbage collected and old records gone."""
    storage = DictStorage()
    storage.files = dict(log.files)
    kinds = {name.split("/")[0] for name in log.files}
    assert kinds == {"format.json", "terms", "records", "manifests", "deltas", "snapshots", "targets"}
    assert min(name for name in log.files if name.startswith("records/")) > "records/00000000000000000000.json"
    assert verify(storage) == []
    assert opened(log, storage) == ("", "")


def test_every_damage_is_named_or_makes_no_difference(log: History) -> None:
    """A driver goes on only with the right state; if it does not, or had to do without a file, it names that file."""
    assert play(log, range(DAMAGES)) == set(ACTS)


@pytest.mark.oracle
def test_many_damages(log: History) -> None:
    """The same for many seeds."""
    play(log, range(DAMAGES, MANY))


def play(log: History, seeds: range) -> set[str]:
    """Try one damage for each seed; returns what was tried."""
    acts, refused = set(), 0
    for seed in seeds:
        storage, damage = damaged(log, seed)
        if not damage.names:
            continue
        acts.add(damage.act)
        files = dict(storage.files)
        said, wrong = opened(log, storage)
        assert not wrong, f"damage {seed}: {damage.what}: a silent wrong answer: {wrong}"
        refused += bool(said)
        assert not said or named(damage, said), f"damage {seed}: {damage.what}: it is said: {said}"
        storage.files = files
        findings = "\n".join(f"{each.name} {each.message}" for each in verify(storage))
        if any(matters(log, name, damage.act) for name in damage.names):
            assert named(damage, findings), f"damage {seed}: {damage.what}: {findings or 'nothing found'}"
    assert refused > len(seeds) // 5
    return acts
