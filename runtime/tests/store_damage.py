"""Damage to the directory of a local store, and stores to damage.

A `Past` is a store's directory after each of its last transactions, with its contents then. Whatever happens to its files, a
store that opens holds one of these states completely, or nothing; the log decides which of them is current.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from stores import commit_epoch, packing

from binshift import entries
from binshift.model import GENESIS, BinSet, Epoch, Fence, Stamp, Term
from binshift.store.bins.binstore import BinStore
from binshift.store.engine import cache_directory
from binshift.store.engine.contract import StoreLimits
from binshift.store.engine.lmdb_store import close_environments, open_lmdb

BINS = 32
PAGE_BYTES = 4096
LIMITS = StoreLimits(map_bytes_max=2 << 20, disk_free_bytes_min=0, background_rows_max=300)
IDENTITY = "query/state/0"

State = tuple[object, ...]
Files = dict[str, bytes]


@dataclass
class Past:
    """The past states of a directory.

    Attributes:
        files: by name, as they are now, those of runs too; of the data file only the used part, as it is as long as the map.
        states: all states of the store; the last one is current.
        earlier: the data file some transactions earlier.
        other: the data file of another worker's store.
    """

    files: Files
    states: list[State]
    earlier: bytes
    other: bytes


def held(store: BinStore) -> State:
    """Status and rows, for comparison."""
    with store.reader() as reader:
        status = reader.status
        rows = {b: [row for part in reader.scan(b) for row in part.to_pylist()] for b in status.visible}
        copies = sorted(status.copies.items())
        return str(status.stamp), str(status.owned), copies, str(status.undo_to), str(status.fence), rows


def opened(directory: Path) -> BinStore:
    """The store in a directory."""
    return BinStore(open_lmdb(directory, LIMITS, IDENTITY), BINS, LIMITS)


def files_of(directory: Path) -> Files:
    """Everything in it but locks; zeros at the end left out."""
    names = (cache_directory.DATA, cache_directory.HEADER, "lock.mdb")
    runs = {path.name: path.read_bytes() for path in directory.glob("*.run")}
    return {name: (directory / name).read_bytes().rstrip(b"\0") for name in names} | runs


def past(directory: Path, seed: int) -> Past:
    """A store with rows of all kinds, copies, an incomplete copy, an undo record and free pages."""
    rng = np.random.default_rng(seed)
    grow(directory / "other", np.random.default_rng(seed + 1), "query/state/1", [])
    states: list[State] = []
    with packing(rows_min=20):
        earlier = grow(directory / "this", rng, IDENTITY, states)
    return Past(
        files_of(directory / "this"),
        states,
        earlier,
        (directory / "other" / cache_directory.DATA).read_bytes().rstrip(b"\0"),
    )


def grow(directory: Path, rng: np.random.Generator, identity: str, states: list[State]) -> bytes:
    """Run epochs and copies; returns the data file from in between."""
    store = BinStore(open_lmdb(directory, LIMITS, identity), BINS, LIMITS)
    at, owned, earlier = GENESIS, BinSet(range(20)), b""
    for epoch in range(7):
        fence, stamp = Fence(Term(1), Epoch(epoch), 0), Stamp(Epoch(epoch), f"1.{epoch}.0.{rng.integers(9)}")
        changes = [some_rows(rng, owned, 500)]
        commit_epoch(store, fence, expect=at, stamp=stamp, owned=owned, changes=changes, undo=True)
        states.append(held(store))
        at = stamp
        copied = BinSet([20 + epoch, 21 + epoch])
        rows = [entries.merge_last_wins([some_rows(rng, copied, 60)])]
        live = rows[0].filter(rows[0].column(2).is_valid())
        for begin, done, part in ((True, False, [live]), (False, epoch != 3, [])):
            store.install_copies(fence, copied, Epoch(epoch), part, begin=begin, done=done)
            states.append(held(store))
        if epoch == 4:
            close_environments(directory)
            earlier = (directory / cache_directory.DATA).read_bytes().rstrip(b"\0")
            store = BinStore(open_lmdb(directory, LIMITS, identity), BINS, LIMITS)
    close_environments(directory)
    return earlier


def some_rows(rng: np.random.Generator, bins: BinSet, count: int) -> entries.Entries:
    """Rows of these bins: most are short, some deleted, a few with long keys or values."""
    of = rng.choice(bins.array, count).astype(np.int32)
    keys = [b"key-%05d" % number for number in rng.integers(0, 900, count)]
    values: list[bytes | None] = [b"value-%012d" % number for number in rng.integers(0, 1 << 40, count)]
    for row in range(0, count, 9):
        values[row] = None
    keys[1], keys[2] = b"k" * 600, b"k" * 600 + bytes([rng.integers(200)])
    values[3], values[4] = b"w" * 9000, rng.bytes(2500)
    return entries.make(of, keys, values)


Act = Callable[[random.Random, Files, Past], None]


def _flip(rng: random.Random, files: Files, was: Past) -> None:
    name = rng.choice((cache_directory.DATA,) * 12 + (cache_directory.HEADER, "lock.mdb"))
    data = bytearray(files[name])
    for _ in range(rng.choice((1, 1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    files[name] = bytes(data)


def _flip_structure(rng: random.Random, files: Files, was: Past) -> None:
    """Bits of page heads, of lists of nodes and of meta pages: few of all bytes, and the ones that lead elsewhere."""
    data = bytearray(files[cache_directory.DATA])
    page = rng.randrange(len(data) // PAGE_BYTES)
    at = page * PAGE_BYTES + rng.randrange(160 if page < 2 else 40)
    data[at] ^= 1 << rng.randrange(8)
    files[cache_directory.DATA] = bytes(data)


def _flip_run(rng: random.Random, files: Files, was: Past) -> None:
    name = rng.choice(sorted(name for name in files if name.endswith(".run")))
    data = bytearray(files[name])
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    files[name] = bytes(data)


def _overwrite(rng: random.Random, files: Files, was: Past) -> None:
    data = bytearray(files[cache_directory.DATA])
    length = rng.choice((1, 8, 64, 512, PAGE_BYTES, 3 * PAGE_BYTES))
    at = rng.randrange(len(data))
    at -= at % rng.choice((1, 8, 512, PAGE_BYTES))
    data[at : at + length] = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length)))
    files[cache_directory.DATA] = bytes(data)


def _swap_pages(rng: random.Random, files: Files, was: Past) -> None:
    data = bytearray(files[cache_directory.DATA])
    one, two = (rng.randrange(len(data) // PAGE_BYTES) * PAGE_BYTES for _ in range(2))
    one_page, two_page = data[one : one + PAGE_BYTES], data[two : two + PAGE_BYTES]
    data[one : one + PAGE_BYTES] = two_page
    if rng.random() < 0.5:
        data[two : two + PAGE_BYTES] = one_page
    files[cache_directory.DATA] = bytes(data)


def _cut(rng: random.Random, files: Files, was: Past) -> None:
    """Also in the middle, with zeros after it: the file keeps its length."""
    name = rng.choice(sorted(files))
    files[name] = files[name][: rng.choice((0, 1, rng.randrange(len(files[name]))))]


def _delete(rng: random.Random, files: Files, was: Past) -> None:
    del files[rng.choice(sorted(files))]


def _another_worker(rng: random.Random, files: Files, was: Past) -> None:
    files[cache_directory.DATA] = was.other


def _an_earlier_file(rng: random.Random, files: Files, was: Past) -> None:
    files[cache_directory.DATA] = was.earlier


def _another_file(rng: random.Random, files: Files, was: Past) -> None:
    one, two = rng.sample(sorted(files), 2)
    files[one], files[two] = files[two], files[one]


ACTS: dict[str, Act] = {
    "flipped": _flip,
    "flipped in structure": _flip_structure,
    "flipped in a run": _flip_run,
    "overwritten": _overwrite,
    "pages swapped": _swap_pages,
    "cut": _cut,
    "deleted": _delete,
    "of another worker": _another_worker,
    "of an earlier time": _an_earlier_file,
    "files swapped": _another_file,
}
RARE = ("of another worker", "of an earlier time", "deleted", "files swapped")


def damaged(was: Past, directory: Path, seed: int) -> str:
    """Write the files after one damage; returns its name."""
    rng = random.Random(seed)
    files = dict(was.files)
    acts = [act for act in sorted(ACTS) for _ in range(1 if act in RARE else 6)]
    act = rng.choice(acts)
    ACTS[act](rng, files, was)
    shutil.rmtree(directory)
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_bytes(content)
    data = directory / cache_directory.DATA
    if data.exists() and not (act == "cut" and rng.random() < 0.5):
        with data.open("r+b") as file:
            file.truncate(max(len(files[cache_directory.DATA]), LIMITS.map_bytes_max))
    return act
