"""A process that serves many queries keeps few environments open, and a store for one task leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from stores import commit_epoch

from binshift import entries
from binshift.model import GENESIS, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.engine.contract import KeyValueStore, StoreLimits
from binshift.store.engine.lmdb_places import OPEN_MAX, Places
from binshift.store.engine.lmdb_store import close_environments, open_lmdb
from binshift.store.opening import StoreSettings, scratch_store

MAP_BYTES = 1 << 20
SETTINGS = StoreSettings(map_bytes=MAP_BYTES)


class Door:
    """A place that only counts its openings."""

    def __init__(self) -> None:
        self.open = True

    def forget(self) -> None:
        """Close."""
        self.open = False

    def reset_after_fork(self) -> None:
        """A new process inherits nothing."""


def mapped(folder: Path) -> int:
    """The number of environments below ``folder`` that this process has open."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line for line in lines if f"{folder}/" in line and line.endswith("data.mdb")})


def rows_in(store: KeyValueStore) -> int:
    """The rows of all bins."""
    with store.read() as transaction:
        return transaction.size().rows


def test_only_the_newest_environments_stay_open(tmp_path: Path) -> None:
    """The others are reopened on use, with their contents."""
    limits = StoreLimits(map_bytes_max=MAP_BYTES)
    first = open_lmdb(tmp_path / "0", limits)
    with first.write(1.0) as transaction:
        transaction.put_many(entries.make([1], [b"key"], [b"value"]))
    for number in range(1, 2 * OPEN_MAX):
        open_lmdb(tmp_path / str(number), limits)
    assert mapped(tmp_path) <= OPEN_MAX
    assert rows_in(first) == 1
    assert mapped(tmp_path) <= OPEN_MAX
    close_environments()
    assert mapped(tmp_path) == 0


def test_those_that_open_again_count_too(tmp_path: Path) -> None:
    """However many stores are used in turn, only the last opened ones stay open, and all keep their rows."""
    stores = [open_lmdb(tmp_path / str(number), StoreLimits(map_bytes_max=MAP_BYTES)) for number in range(OPEN_MAX + 4)]
    for store in stores:
        with store.write(1.0) as transaction:
            transaction.put_many(entries.make([1], [b"key"], [b"value"]))
    assert [rows_in(store) for store in stores] == [1] * len(stores)
    assert mapped(tmp_path) <= OPEN_MAX
    stays = stores[-1].directory / "data.mdb"
    assert str(stays) in Path("/proc/self/maps").read_text()
    close_environments()


def test_a_place_whose_directory_is_gone_is_forgotten(tmp_path: Path) -> None:
    """The others are only closed, because they may be used again."""
    places: Places[Door] = Places()
    kept = places.of(tmp_path, "kept", Door)
    for number in range(10 * OPEN_MAX):
        places.of(tmp_path / str(number), "", Door)
    assert len(places) <= OPEN_MAX + 1
    assert not kept.open
    assert places.of(tmp_path, "kept", Door) is kept


def test_a_scratch_store_is_gone_afterwards(tmp_path: Path) -> None:
    """Its files, its environment, and those of a killed one are removed."""
    left = tmp_path / "stand-in" / "left behind"
    left.mkdir(parents=True)
    with scratch_store(tmp_path / "stand-in", "1.0.0.1", 8, SETTINGS) as store:
        assert not left.exists()
        rows = entries.make([3], [b"key"], [b"value"])
        fence, stamp = Fence(Term(1), Epoch(0), 0), Stamp(Epoch(0), "1.0.0.1")
        commit_epoch(store, fence, expect=GENESIS, stamp=stamp, owned=BinSet([3]), changes=[rows], undo=False)
        assert store.size().rows == 1
        assert mapped(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    assert mapped(tmp_path) == 0
