"""LMDB's file as bytes: pages, trees and nodes as version 0.9 lays them out on a 64-bit machine.

This module reads; `lmdb_file` judges. Everything is checked against the page it is on before it is used, so that no byte of
the file can lead a reader astray: whatever does not fit is a `Misfit`. Branches are few and read one by one; leaves are
many and read in NumPy, some hundred pages at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binshift import binary

Bytes8 = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

METAS = 2
NO_PAGE = (1 << 64) - 1
PAGE_BYTES = range(512, 65536 + 1)
LEAVES_AT_ONCE = 256
DEPTH_MAX = 32

_HEAD_BYTES = 16
_NODE_BYTES = 8
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_BIG, _TREE = 1, 2
_META = struct.Struct("=16x II8xQ")
_TREE_FIELDS = struct.Struct("=IHHQQQQQ")
_TAIL = struct.Struct("=QQ")
_HEAD = struct.Struct("=Q2xHHH")
_NODE = struct.Struct("=HHHH")
META_BYTES = _META.size + 2 * _TREE_FIELDS.size + _TAIL.size


class Misfit(Exception):
    """What the file says cannot be."""


class Tree(NamedTuple):
    """What a database says of itself."""

    pad: int
    flags: int
    depth: int
    branches: int
    leaves: int
    overflows: int
    rows: int
    root: int


class Meta(NamedTuple):
    """What a meta page says."""

    page_bytes: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int


class Rows(NamedTuple):
    """The rows of some leaves, in their order; the flags of their nodes; how many each leaf has."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    flags: Numbers
    counts: Numbers


class Separator(NamedTuple):
    """A branch's key: rows of leaves before ``leaf`` are below it, those from there on are not."""

    leaf: int
    key: bytes


def tree_of(data: bytes) -> Tree:
    """A database's record, as it is kept in a meta page or as the value of its name."""
    if len(data) != _TREE_FIELDS.size:
        raise Misfit("a database's record has another length")
    return Tree(*_TREE_FIELDS.unpack(data))


def meta_of(content: Bytes8, page: int, page_bytes: int) -> Meta:
    """The meta page ``page``."""
    data = content[page * page_bytes : page * page_bytes + META_BYTES].tobytes()
    if len(data) < META_BYTES:
        raise Misfit(f"meta page {page} is cut off")
    trees = data[_META.size :]
    free, main = (tree_of(trees[at : at + _TREE_FIELDS.size]) for at in (0, _TREE_FIELDS.size))
    last_page, transaction = _TAIL.unpack_from(trees, 2 * _TREE_FIELDS.size)
    if _HEAD.unpack_from(data)[:2] != (page, _META_PAGE):
        raise Misfit(f"page {page} is no meta page")
    if transaction and transaction % METAS != page:
        raise Misfit(f"meta page {page} is of transaction {transaction}")
    return Meta(free.pad, free, main, last_page, transaction)


class Pages:
    """The pages of one file, and which of them have been met.

    Args:
        content: of the file.
        page_bytes: of a page.
        count: pages that are in use.
    """

    def __init__(self, content: Bytes8, page_bytes: int, count: int) -> None:
        if count < METAS or count * page_bytes > content.size:
            raise Misfit(f"{count} pages are in use, and the file has {content.size // page_bytes}")
        self._pages = content[: count * page_bytes].reshape(count, page_bytes)
        self._bytes = page_bytes
        self.met = np.zeros(count, dtype=np.bool_)
        self.met[:METAS] = True

    def meet(self, pages: Numbers) -> None:
        """Note pages; each may be met once."""
        if not pages.size:
            return
        if pages.min() < METAS or pages.max() >= len(self.met):
            raise Misfit(f"page {pages.min()} or {pages.max()} is none of {len(self.met)}")
        if self.met[pages].any() or len(np.unique(pages)) < len(pages):
            raise Misfit("a page is reached twice")
        self.met[pages] = True

    def leaves(self, tree: Tree) -> tuple[Numbers, list[Separator]]:
        """The leaves of a tree in the order of their rows, and the keys that lead to them."""
        leaves: list[int] = []
        separators: list[Separator] = []
        branches = 0
        todo: list[tuple[int, int, bytes]] = [] if tree.root == NO_PAGE else [(tree.root, 1, b"")]
        while todo:
            page, depth, key = todo.pop()
            if leaves and key:
                separators.append(Separator(len(leaves), key))
            if depth == tree.depth:
                leaves.append(page)
                continue
            branches += 1
            self.meet(np.array([page]))
            children = list(self._children(page))
            # The first child is reached without looking at its key; what leads there is its parent's.
            todo += [(child, depth + 1, own if at else b"") for at, (child, own) in enumerate(children)][::-1]
        if (branches, len(leaves)) != (tree.branches, tree.leaves) or not 0 <= tree.depth <= DEPTH_MAX:
            raise Misfit(f"a tree has {branches} and {len(leaves)} pages, and says {tree.branches} and {tree.leaves}")
        found = np.array(leaves, dtype=np.int64)
        self.meet(found)
        return found, separators

    def _children(self, page: int) -> Iterator[tuple[int, bytes]]:
        data = self._pages[page].tobytes()
        number, flags, lower, upper = _HEAD.unpack_from(data)
        if number != page or flags != _BRANCH or not _HEAD_BYTES + 2 < lower <= upper <= self._bytes or lower % 2:
            raise Misfit(f"page {page} is no branch")
        for (at,) in struct.iter_unpack("=H", data[_HEAD_BYTES:lower]):
            if not upper <= at <= self._bytes - _NODE_BYTES:
                raise Misfit(f"page {page} has a node outside")
            low, high, higher, size = _NODE.unpack_from(data, at)
            key = data[at + _NODE_BYTES : at + _NODE_BYTES + size]
            if len(key) < size:
                raise Misfit(f"page {page} has a key that goes beyond it")
            yield low | high << 16 | higher << 32, key

    def rows(self, leaves: Numbers) -> Rows:
        """The rows of some leaves."""
        pages = self._pages[leaves]
        numbers, shorts = pages.view("=u8")[:, 0], pages.view("=u2")
        flags, lower, upper = (shorts[:, at].astype(np.int64) for at in (5, 6, 7))
        fits = (numbers == leaves) & (flags == _LEAF) & (lower >= _HEAD_BYTES) & (lower <= upper) & (lower % 2 == 0)
        if not (fits & (upper <= self._bytes)).all():
            raise Misfit(f"page {leaves[~(fits & (upper <= self._bytes))][0]} is no leaf")
        counts = (lower - _HEAD_BYTES) // 2
        listed = np.arange(counts.max(initial=0)) < counts[:, None]
        at = shorts[:, 8 : 8 + listed.shape[1]][listed].astype(np.int64)
        of = np.repeat(np.arange(len(leaves)), counts)
        if ((at < upper[of]) | (at > self._bytes - _NODE_BYTES) | (at % 2 == 1)).any():
            raise Misfit("a leaf has a node outside")
        low, high, flags, key_sizes = (shorts[of, at // 2 + field].astype(np.int64) for field in range(4))
        sizes, big = low | high << 16, (flags & _BIG) != 0
        inside = np.where(big, 8, sizes)
        self._check_filled(of, at, _NODE_BYTES + key_sizes + inside, upper)
        starts = of * self._bytes + at + _NODE_BYTES
        content = pa.py_buffer(pages)
        keys = _taken(content, starts, starts + key_sizes)
        values = _taken(content, starts + key_sizes, starts + key_sizes + inside)
        return Rows(keys, self._with_big_ones(values, np.flatnonzero(big), sizes), flags & ~_BIG, counts)

    def _check_filled(self, of: Numbers, at: Numbers, sizes: Numbers, upper: Numbers) -> None:
        """Nodes fill the end of each page: none is named twice, none overlaps another, nothing is between them."""
        order = np.lexsort((at, of))
        of, at, ends = of[order], at[order], (at + sizes + sizes % 2)[order]
        last = np.append(of[1:] != of[:-1], True)[: len(of)]
        following = np.where(last, self._bytes, np.append(at[1:], 0)[: len(at)])
        first = np.roll(last, 1)
        if (ends != following).any() or (at[first] != upper[of[first]]).any():
            raise Misfit("the nodes of a leaf do not fill it")
        if len(np.unique(of)) < int((upper < self._bytes).sum()):
            raise Misfit("a leaf has more in it than its nodes")

    def _with_big_ones(self, values: pa.BinaryArray, big: npt.NDArray[np.intp], sizes: Numbers) -> pa.BinaryArray:
        """Values that are too long for a leaf lie on pages of their own."""
        if not big.size:
            return values
        listed: list[bytes] = values.to_pylist()
        for row in big.tolist():
            listed[row] = self._big(int.from_bytes(listed[row], "little"), int(sizes[row]))
        return binary.of(listed)

    def _big(self, page: int, size: int) -> bytes:
        count = (_HEAD_BYTES - 1 + size) // self._bytes + 1
        if not METAS <= page <= len(self.met) - count:
            raise Misfit(f"a long value is said to begin on page {page}")
        self.meet(np.arange(page, page + count))
        number, flags, low, high = _HEAD.unpack_from(self._pages[page].tobytes())
        if (number, flags, low | high << 16) != (page, _OVERFLOW, count):
            raise Misfit(f"page {page} does not begin a long value of {count} pages")
        return self._pages[page : page + count].tobytes()[_HEAD_BYTES : _HEAD_BYTES + size]


def is_tree(flags: Numbers) -> npt.NDArray[np.bool_]:
    """Whether rows are names of databases."""
    return np.asarray(flags == _TREE)


def _taken(content: pa.Buffer, starts: Numbers, stops: Numbers) -> pa.BinaryArray:
    """Pieces of the content in any order."""
    order = np.argsort(starts, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return binary.pieces(content, starts[order], stops[order]).take(pa.array(back))
