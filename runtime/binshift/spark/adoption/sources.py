"""The sources of a program as Spark numbers them in its checkpoint, and as it numbers them in that of binshift's stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binshift.errors import Unsupported
from binshift.spark.adoption.checkpoint import OffsetEntry
from binshift.spark.plan.catalyst import class_name, sequence

RELATIONS = ("StreamingRelation", "StreamingRelationV2")
"""Nodes of analysed plans that are sources."""


@dataclass(frozen=True)
class SourceOrder:
    """Where the sources of binshift's stream are in a checkpoint of Spark.

    Attributes:
        lines: for each source, the number of its line in the offset log.
        folders: for each folder of a source, the number of its folder in Spark's checkpoint.
        dropped: lines that have no source in binshift's stream, which reads equal sources once; with the line of its equal.
        count: the number of lines in Spark's offset log.
    """

    lines: tuple[int, ...]
    folders: tuple[int, ...]
    dropped: tuple[tuple[int, int], ...]
    count: int

    @classmethod
    def of(cls, program: Any, stream: Any) -> SourceOrder:
        """Compare two analysed plans: the program's, and that of the stream that binshift starts for it.

        Raises:
            Unsupported: a source of one is not in the other.
        """
        theirs, ours = _sources(program), _sources(stream)
        lines = tuple(_position(theirs, each) for each in ours)
        known = _distinct(theirs)
        folders = tuple(_position(known, each) for each in _distinct(ours))
        dropped = tuple((number, _equal(theirs, lines, number)) for number in range(len(theirs)) if number not in lines)
        return cls(lines, folders, dropped, len(theirs))

    def reordered(self, entry: OffsetEntry, more: Sequence[str]) -> OffsetEntry:
        """A batch's offsets for binshift's stream, whose last sources are at ``more``.

        Raises:
            Unsupported: the checkpoint has other sources than the program, or has read equal ones to different offsets.
        """
        if len(entry.sources) != self.count:
            raise Unsupported(
                f"the checkpoint has {len(entry.sources)} sources, the program {self.count}: start the program that has written it"
            )
        for number, equal in self.dropped:
            if entry.sources[number] != entry.sources[equal]:
                raise Unsupported(
                    f"the program reads a source twice, which Spark has read to {entry.sources[number]} and {entry.sources[equal]}; "
                    "binshift reads it once. Stop the query after a batch in which both have read all there is"
                )
        return entry.with_sources([*(entry.sources[at] for at in self.lines), *more])


def _sources(plan: Any) -> list[Any]:
    """In the order in which Spark numbers them."""
    return [leaf for leaf in sequence(plan.collectLeaves()) if class_name(leaf) in RELATIONS]


def _distinct(sources: list[Any]) -> list[Any]:
    known: list[Any] = []
    for each in sources:
        if not any(each.equals(other) for other in known):
            known.append(each)
    return known


def _position(sources: list[Any], wanted: Any) -> int:
    for number, each in enumerate(sources):
        if each.equals(wanted):
            return number
    raise Unsupported(f"the source {wanted.toString()} is not a source of the program as Spark has it")


def _equal(sources: list[Any], lines: tuple[int, ...], number: int) -> int:
    for other in lines:
        if sources[other].sameResult(sources[number]):
            return other
    raise Unsupported(f"the source {sources[number].toString()} of the program is not read by binshift")
