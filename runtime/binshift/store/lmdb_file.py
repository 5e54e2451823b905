"""Is LMDB's file whole? Judged from its bytes alone, before LMDB sees it.

LMDB believes its file: a wrong number in it may end the process, or lead to rows of another time. So a file that nobody has
had open since it was last judged is read as bytes first. Whole means: the trees have the pages, rows and depths they say;
every page in use is either in a tree, once, or free, once; keys ascend, and branches lead to where they are; each row
and each blob has its checksum. That leaves no byte that counts unchecked: what is altered is noticed, or is not used.

It costs a fraction of building the store again from the log, as nothing is written, and nothing is fetched.
"""

from __future__ import annotations

import itertools
import mmap
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binshift import binary
from binshift.errors import StoreDamaged
from binshift.store import row_checksums
from binshift.store.lmdb_pages import (
    LEAVES_AT_ONCE,
    METAS,
    NO_PAGE,
    PAGE_BYTES,
    Bytes8,
    Meta,
    Misfit,
    Numbers,
    Pages,
    Rows,
    Tree,
    is_tree,
    meta_of,
    tree_of,
)

Order = Callable[[bytes], Any]

FREE_FLAGS = 8
"""The free list's keys are numbers; its other flags are those of the last environment that wrote it, and none of ours count."""


def trouble(data: Path, row_database: bytes, blob_database: bytes, claim: tuple[str, str]) -> str | None:
    """What is wrong with the file ``data``, which has these two databases; None if it is whole.

    ``claim`` is a blob, by name and content, that it must have: the file of another store is whole too.

    Raises:
        OSError: it cannot be read.
    """
    with data.open("rb") as file:
        try:
            used = _used_bytes(np.frombuffer(file.read(METAS * PAGE_BYTES[-1]), dtype=np.uint8), data.stat().st_size)
        except Misfit as found:
            return str(found)
        return _trouble(file, used, row_database, blob_database, claim)


def _trouble(
    file: BinaryIO, used: int, row_database: bytes, blob_database: bytes, claim: tuple[str, str]
) -> str | None:
    with mmap.mmap(file.fileno(), used, access=mmap.ACCESS_READ) as mapped:
        content = np.frombuffer(mapped, dtype=np.uint8)
        try:
            _check(content, row_database, blob_database, claim)
        except (Misfit, StoreDamaged) as found:
            return str(found)
        finally:
            del content  # a map that is still looked at cannot be closed
    return None


def _check(content: Bytes8, row_database: bytes, blob_database: bytes, claim: tuple[str, str]) -> None:
    meta = _newest(content)
    pages = Pages(content, meta.page_bytes, meta.last_page + 1)
    free = _free_pages(pages, meta)
    names = _small(pages, meta.main)
    trees = dict(zip(names.keys.to_pylist(), map(tree_of, names.values.to_pylist()), strict=True))
    if set(trees) != {row_database, blob_database} or not is_tree(names.flags).all():
        raise Misfit(f"its databases are {sorted(trees)}")
    if any(tree.flags or tree.pad for tree in (meta.main, *trees.values())):
        raise Misfit("a database is of another kind")
    blobs = _small(pages, trees[blob_database])
    named = [name.decode(errors="replace") for name in blobs.keys.to_pylist()]
    held = {
        name: row_checksums.verify_blob(name, blob) for name, blob in zip(named, blobs.values.to_pylist(), strict=True)
    }
    if held.get(claim[0]) != claim[1].encode():
        raise Misfit(f"it is of {held.get(claim[0], b'nothing').decode(errors='replace')}, not of {claim[1]}")
    _check_rows(pages, trees[row_database])
    pages.meet(free)
    if not pages.met.all():
        raise Misfit(f"page {np.flatnonzero(~pages.met)[0]} is neither in use nor free")


def _newest(content: Bytes8) -> Meta:
    first = meta_of(content, 0, 1)
    if first.page_bytes not in PAGE_BYTES or first.page_bytes & (first.page_bytes - 1):
        raise Misfit(f"its page size is {first.page_bytes}")
    second = meta_of(content, 1, first.page_bytes)
    newest = second if second.transaction > first.transaction else first
    if second.page_bytes != first.page_bytes or newest.free.flags != FREE_FLAGS:
        raise Misfit("its meta pages are not LMDB's")
    return newest


def _used_bytes(head: Bytes8, size: int) -> int:
    """How much of the file counts: LMDB makes it as long as it may ever become."""
    meta = _newest(head)
    used = meta.page_bytes * (meta.last_page + 1)
    if not METAS * meta.page_bytes <= used <= size:
        raise Misfit(f"{used} of its {size} bytes are said to be in use")
    return used


def _free_pages(pages: Pages, meta: Meta) -> Numbers:
    """The pages that nothing uses: lists by transaction, each with its length first."""
    rows = _small(pages, meta.free, _number)
    found: list[Numbers] = [np.empty(0, dtype=np.int64)]
    for key, value in zip(rows.keys.to_pylist(), rows.values.to_pylist(), strict=True):
        if len(key) != 8 or not 0 < _number(key) <= meta.transaction or len(value) % 8 or not value:
            raise Misfit("the list of free pages is none")
        listed = np.frombuffer(value, dtype="=u8")
        if int(listed[0]) != len(listed) - 1 or (len(listed) > 1 and int(listed.max()) >= len(pages.met) + len(listed)):
            raise Misfit("a list of free pages has another length")
        found.append(listed[1:].astype(np.int64))
    return np.concatenate(found)


def _small(pages: Pages, tree: Tree, order: Order = bytes) -> Rows:
    """All rows of a small tree, whose keys are in this order."""
    leaves, separators = pages.leaves(tree)
    if not len(leaves):
        if tree != Tree(tree.pad, tree.flags, 0, 0, 0, 0, 0, NO_PAGE):
            raise Misfit("a database without pages is not empty")
        nothing = np.empty(0, dtype=np.int64)
        return Rows(binary.of([]), binary.of([]), nothing, nothing)
    before = int(pages.met.sum())
    rows = pages.rows(leaves)
    if len(rows.keys) != tree.rows or int(pages.met.sum()) - before != tree.overflows:
        raise Misfit(f"a database has {len(rows.keys)} rows, and says {tree.rows}")
    keys = [order(key) for key in rows.keys.to_pylist()]
    if any(left >= right for left, right in itertools.pairwise(keys)):
        raise Misfit("its rows are not in order")
    firsts, lasts = _ends(rows)
    _check_led([(leaf, order(key)) for leaf, key in separators], list(map(order, firsts)), list(map(order, lasts)))
    return rows


def _check_rows(pages: Pages, tree: Tree) -> None:
    leaves, separators = pages.leaves(tree)
    if not len(leaves):
        _small(pages, tree)
        return
    before, count, last = int(pages.met.sum()), 0, b""
    firsts: list[bytes] = []
    lasts: list[bytes] = []
    for at in range(0, len(leaves), LEAVES_AT_ONCE):
        some = leaves[at : at + LEAVES_AT_ONCE]
        rows = pages.rows(some)
        if rows.flags.any():
            raise Misfit("a row is of another kind")
        row_checksums.verify(rows.keys, rows.values)
        _check_ascending(rows.keys, last if at else None)
        count += len(rows.keys)
        last = rows.keys[len(rows.keys) - 1].as_py()
        for ends, more in zip((firsts, lasts), _ends(rows), strict=True):
            ends += more
    if count != tree.rows or int(pages.met.sum()) - before != tree.overflows:
        raise Misfit(f"it has {count} rows, and says {tree.rows}")
    _check_led(separators, firsts, lasts)


def _check_ascending(keys: pa.BinaryArray, before: bytes | None) -> None:
    if before is not None and len(keys) and keys[0].as_py() <= before:
        raise Misfit("its rows are not in order")
    if len(keys) > 1 and not pc.all(pc.less(keys[:-1], keys[1:])).as_py():
        raise Misfit("its rows are not in order")


def _ends(rows: Rows) -> tuple[list[bytes], list[bytes]]:
    """The first and the last key of each leaf."""
    if (rows.counts == 0).any():
        raise Misfit("a leaf has no rows")
    ends = np.cumsum(rows.counts)
    return rows.keys.take(pa.array(ends - rows.counts)).to_pylist(), rows.keys.take(pa.array(ends - 1)).to_pylist()


def _check_led(separators: Sequence[tuple[int, Any]], firsts: Sequence[Any], lasts: Sequence[Any]) -> None:
    """Whoever looks for a key is led to the leaf that would have it."""
    if len(separators) != max(len(firsts) - 1, 0):
        raise Misfit("a branch has a key that is empty")
    for leaf, key in separators:
        if not lasts[leaf - 1] < key <= firsts[leaf]:
            raise Misfit("a branch leads astray")


def _number(key: bytes) -> int:
    return int.from_bytes(key, sys.byteorder)
