"""After any of thousands of damages, a local store holds its state, an earlier one, or is found empty."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from store_damage import ACTS, BINS, IDENTITY, LIMITS, Past, damaged, held, opened, past

from binshift import entries
from binshift.errors import StoreDamaged
from binshift.model import GENESIS, Bin
from binshift.store.bins.binstore import BinStore
from binshift.store.engine import cache_directory
from binshift.store.engine.lmdb_store import close_environments, open_lmdb

DAMAGES, MANY = 500, 6000


@pytest.fixture(scope="module")
def was(tmp_path_factory: pytest.TempPathFactory) -> Past:
    """A store with past states."""
    return past(tmp_path_factory.mktemp("past"), seed=1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of damaged stores."""
    place = tmp_path / "store"
    place.mkdir()
    return place


def play(was: Past, directory: Path, seeds: range, caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """Try one damage for each seed; returns the number of each outcome."""
    found: Counter[str] = Counter()
    for seed in seeds:
        act = damaged(was, directory, seed)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            try:
                state = held(opened(directory))
            except StoreDamaged:  # in a run, which is verified when it is read
                state = held(opened(directory))
        close_environments(directory)
        if "discarded" in caplog.text:
            assert str(directory) in caplog.text
            assert state[:2] == (str(GENESIS), "BinSet()"), f"damage {seed}, {act}: it was discarded and is not empty"
            found[f"{act}: discarded"] += 1
        else:
            empty = act in ("deleted", "cut", "files swapped") and state[0] == str(GENESIS)
            assert empty or state in was.states, f"damage {seed}, {act}: it holds what it never held"
            found[f"{act}: {'as it was' if state == was.states[-1] else 'empty' if empty else 'earlier'}"] += 1
    return found


def test_no_damage_gives_a_state_that_never_was(was: Past, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Bits, ranges, pages and files are altered, truncated, lost and exchanged, including LMDB's structure."""
    found = play(was, directory, range(DAMAGES), caplog)
    assert {each.partition(":")[0] for each in found} == set(ACTS), found
    assert found["flipped in structure: discarded"] > 30, found
    assert found["flipped in a run: discarded"] > 30, found
    assert found["of another worker: discarded"] > 3, found
    assert found["of an earlier time: earlier"] > 3, found


@pytest.mark.parametrize("seed", [1649, 3476])
def test_damage_that_a_cursor_does_not_see_is_noticed(
    was: Past, directory: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """A key that no lookup leads to, and a page with the content of another, are damage."""
    found = play(was, directory, range(seed, seed + 1), caplog)
    assert [each.partition(": ")[2] for each in found] == ["discarded"]


@pytest.mark.oracle
def test_many_damages(was: Past, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same holds for many seeds."""
    play(was, directory, range(DAMAGES, MANY), caplog)


def test_an_undamaged_store_is_not_discarded(was: Past, directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If no other process has it open, it is checked, and found intact."""
    for name, data in was.files.items():
        (directory / name).write_bytes(data)
    with (directory / cache_directory.DATA).open("r+b") as file:
        file.truncate(LIMITS.map_bytes_max)
    with caplog.at_level(logging.WARNING):
        assert held(opened(directory)) == was.states[-1]
    assert caplog.text == ""
    close_environments(directory)


ROW = entries.make([3], [b"key"], [b"a value to be found"])


def read_rows(store: BinStore, read: str) -> list[object]:
    """What is stored of `ROW`, read in one of two ways."""
    with store._fenced.kv.read() as transaction:
        if read == "scan":
            return list(transaction.scan(Bin(3)))
        found: list[object] = transaction.get_many(entries.bins_array(ROW), ROW.column(1)).to_pylist()
        return found


def test_a_row_that_is_altered_while_the_store_is_open_is_noticed(tmp_path: Path) -> None:
    """A reader learns that the store is damaged, by point or by scan; the next one finds it empty."""
    for read in ("point", "scan"):
        store = BinStore(open_lmdb(tmp_path / read, LIMITS, IDENTITY), BINS, LIMITS)
        with store._fenced.kv.write(1) as transaction:
            transaction.put_many(ROW)
        data = tmp_path / read / cache_directory.DATA
        at = data.read_bytes().find(b"a value to be found")
        assert at > 0
        with data.open("r+b") as file:
            file.seek(at)
            file.write(b"A")

        with pytest.raises(StoreDamaged, match=str(tmp_path / read)):
            read_rows(store, read)
        assert read_rows(store, read) in ([], [None])
        close_environments(tmp_path / read)


def test_a_header_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """A flipped bit may leave bytes that are not UTF-8."""
    opened(tmp_path)
    close_environments(tmp_path)
    path = tmp_path / cache_directory.HEADER
    path.write_bytes(path.read_bytes().replace(b"-", b"\xb9", 1))
    assert held(opened(tmp_path))[1] == "BinSet()"
    close_environments(tmp_path)


def test_a_store_whose_last_user_was_killed_while_writing_is_kept(tmp_path: Path) -> None:
    """After a killed writer the store is found intact: the open transaction is gone, and all earlier ones are kept."""
    store = opened(tmp_path)
    with store._fenced.kv.write(1) as transaction:
        transaction.put_many(ROW)
    close_environments(tmp_path)
    program = f"""
        import os
        from binshift.entries import make
        from binshift.store.engine.contract import StoreLimits
        from binshift.store.engine.lmdb_store import open_lmdb
        limits = StoreLimits(map_bytes_max={LIMITS.map_bytes_max}, disk_free_bytes_min=0)
        with open_lmdb({str(tmp_path)!r}, limits, {IDENTITY!r}).write(1) as transaction:
            transaction.put_many(make([3] * 9000, [b"%05d" % n for n in range(9000)], [b"1" * 20] * 9000))
            os._exit(9)
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    child = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, timeout=300)
    assert child.returncode == 9
    assert read_rows(opened(tmp_path), "point") == [b"a value to be found"]
    assert len(read_rows(opened(tmp_path), "scan")) == 1
    close_environments(tmp_path)
