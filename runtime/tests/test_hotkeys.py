"""Hot keys from the reports of tasks: `binshift.hotkeys`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binshift.hotkeys import CANDIDATES_MAX, COOL, HOT, NAMED_MAX, RECORDS_MIN, Candidate, HotKeys
from binshift.model import Bin, Worker

OPERATOR = "op"

reports = st.lists(
    st.builds(
        Candidate,
        st.sampled_from(["a", "b"]),
        st.integers(0, 7).map(Worker),
        st.integers(0, 63).map(Bin),
        st.sampled_from(["x", "y", "z", "w"]),
        st.integers(0, 100_000),
    ),
    max_size=16,
)


def one(records: int, key: str = "x", operator: str = OPERATOR, bin: int = 7) -> Candidate:
    """A report of the first worker."""
    return Candidate(operator, Worker(0), Bin(bin), key, records)


def after(shares: list[float], workers: int, records: int = 100_000) -> HotKeys:
    """Epochs in each of which one key has a share."""
    keys = HotKeys()
    for share in shares:
        keys.add({OPERATOR: records}, [one(int(share * records))], workers)
    return keys


@given(st.floats(0.0, 1.0), st.integers(1, 100), st.integers(1, 30))
def test_a_key_is_hot_by_its_part_of_a_fair_share(share: float, workers: int, epochs: int) -> None:
    """With a steady share, a key is named if and only if it has more than half of what each worker would have."""
    keys, exact = after([share] * epochs, workers), int(share * 100_000) / 100_000
    if abs(exact - HOT / workers) > 1e-9:
        enough = sum(exact * 100_000 * 0.8**age for age in range(epochs)) >= RECORDS_MIN
        assert [each.key for each in keys.named] == (["x"] if exact > HOT / workers and enough else [])
    assert all(each.share == pytest.approx(exact) for each in keys.named)


@given(st.lists(st.tuples(reports, st.permutations(range(16))), min_size=1, max_size=6), st.integers(1, 8))
def test_the_order_of_the_workers_does_not_matter(
    epochs: list[tuple[list[Candidate], list[int]]], workers: int
) -> None:
    """The reports of an epoch in any order lead to the same keys."""
    one_way, other_way = HotKeys(), HotKeys()
    for found, order in epochs:
        records = {"a": 300_000, "b": 200_000}
        one_way.add(records, found, workers)
        other_way.add(records, [found[at] for at in order if at < len(found)], workers)
    assert one_way == other_way


@given(st.lists(reports, max_size=20), st.integers(1, 1000))
def test_what_is_named_is_bounded(epochs: list[list[Candidate]], workers: int) -> None:
    """Few keys are named, each once, in the order of their shares, which are parts of the whole."""
    keys = HotKeys()
    for found in epochs:
        total = {name: sum(each.records for each in found if each.operator == name) for name in ("a", "b")}
        keys.add(total, found, workers)
    assert len(keys.named) <= NAMED_MAX
    assert len({(each.operator, each.key) for each in keys.named}) == len(keys.named)
    assert [each.share for each in keys.named] == sorted((each.share for each in keys.named), reverse=True)
    assert all(0 < each.share_of_all <= each.share + 1e-9 <= 1 + 2e-9 for each in keys.named)


def test_many_keys_take_little_memory() -> None:
    """As many keys are remembered for each operator as are needed, and a frequent one is not pushed out."""
    keys = HotKeys()
    for epoch in range(50):
        few = [one(1_000, f"{epoch}-{number}") for number in range(100)]
        keys.add({OPERATOR: 400_000}, [one(300_000), *few], 4)
    assert len(keys._seen) <= CANDIDATES_MAX
    assert [each.key for each in keys.named] == ["x"]


@given(st.floats(HOT + 0.01, 1.0), st.integers(1, 50))
def test_what_was_hot_is_forgotten(share: float, epochs: int) -> None:
    """A key without records for some reports is not named, however long it was hot."""
    keys = after([share] * epochs + [0.0] * 11, workers=1)
    assert keys.named == ()
    assert keys.shares() == {OPERATOR: 0.0}


def test_a_key_at_the_limit_does_not_flap() -> None:
    """Once named, a key stays so until it is clearly below the limit."""
    keys, seen = HotKeys(), []
    for epoch in range(40):
        share = (HOT + COOL) / 2 + (0.06 if epoch % 2 == 0 else -0.06)
        keys.add({OPERATOR: 100_000}, [one(int(share * 100_000))], workers=1)
        seen.append(bool(keys.named))
    assert seen == [True] * 40
    keys.add({OPERATOR: 1_000_000}, [], workers=1)
    assert not keys.named


def test_few_records_name_no_key() -> None:
    """A share of next to nothing is chance."""
    assert after([1.0] * 100, workers=4, records=RECORDS_MIN // 10).named == ()
    assert after([1.0] * 100, workers=4, records=RECORDS_MIN // 4).named


def test_each_operator_has_its_own_shares() -> None:
    """A key that one operator seldom sees is hot by the records of the other."""
    keys = HotKeys()
    keys.add({"a": 90_000, "b": 10_000}, [one(9_000, operator="b"), one(9_000, "y", operator="a")], workers=4)
    (found,) = keys.named
    assert found.operator == "b"
    assert [found.share, found.share_of_all] == pytest.approx([0.9, 0.09])
    assert keys.shares() == {"a": 0.0, "b": pytest.approx(0.9)}


def test_a_key_is_where_it_was_seen_last() -> None:
    """After a move, its bin's new worker is named; of two bins in one epoch, the one with more of its records."""
    keys = HotKeys()
    keys.add({OPERATOR: 10_000}, [one(6_000)], 4)
    keys.add({OPERATOR: 10_000}, [Candidate(OPERATOR, Worker(3), Bin(7), "x", 6_000)], 4)
    assert keys.named[0].worker == 3
    keys.add({OPERATOR: 10_000}, [Candidate(OPERATOR, Worker(1), Bin(9), "x", 5_000), one(1_000)], 4)
    assert (keys.named[0].worker, keys.named[0].bin) == (1, 9)
