"""Driver terms: who wrote first is not who counts; who came last is.

Every driver that opens a log takes the next term by creating its file. Terms are never deleted and have no gaps, so
"is there a term after mine" is one lookup of one name. A driver checks this after each record it has written: if a newer term
had existed for long, retention could have removed the very record that should have stopped it (invariant I8).
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from binshift.errors import Fenced, LogDamaged, StorageUnavailable
from binshift.log.records import envelope
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.model import Epoch, Term

TERM_BYTES_MAX = 64 * 1024
TERM_TRIES_MAX = 1000
"""How many drivers may open a log at the same moment."""
LOST = "its file was lost"
"""Written in place of a term that is missing: a driver checks for the one after its own, so there must be no gap."""


class TermFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who took a term.

    Attributes:
        nonce: makes the file's bytes unique, so that of two drivers exactly one believes to have created it.
        who: for people: host, process.
    """

    format: int = FORMAT_VERSION
    term: int
    nonce: str
    who: str


_decoder = msgspec.json.Decoder(TermFile)


@dataclass(frozen=True)
class Driver:
    """One that has opened a log.

    Attributes:
        term: of the driver.
        nonce: what is unique to it, as in the file of its term.
        opened_at: the epoch of the log's newest record when it opened the log.
    """

    term: Term
    nonce: str
    opened_at: Epoch


def take_term(storage: Storage, who: str, nonce: str, above: int = 0) -> Term:
    """A term higher than any before, for the driver ``who``; ``nonce`` must be unique forever.

    ``above`` is the highest one found elsewhere on the log: if the file of a term was lost and the term were taken twice, one
    of its attempt ids could name two states.

    Raises:
        StorageUnavailable: the store did not answer.
    """
    taken = {file.number for each in storage.list(layout.TERMS) if (file := layout.parse(each.name))}
    first = max(above, *taken, 0) + 1
    for number in sorted(set(range(1, first)) - taken):
        _create(storage, TermFile(term=number, nonce=nonce, who=LOST))
    for number in range(first, first + TERM_TRIES_MAX):
        if _create(storage, TermFile(term=number, nonce=nonce, who=who)):
            return Term(number)
    raise StorageUnavailable(f"{TERM_TRIES_MAX} other drivers have just opened {storage.url}; it is tried again")


def _create(storage: Storage, file: TermFile) -> bool:
    name = layout.term_name(Term(file.term))
    return storage.put_if_absent(name, envelope.encode(name, file, TERM_BYTES_MAX))


def read_term(storage: Storage, term: Term) -> TermFile:
    """Who took ``term``. Raises LogDamaged (ForeignLog) if its file cannot be read."""
    name = layout.term_name(term)
    return envelope.decode(name, storage.get(name), _decoder, TERM_BYTES_MAX)


def check_newest(storage: Storage, term: Term) -> None:
    """Raise unless ``term`` is still the newest.

    Raises:
        Fenced: another driver has opened the log since; the message names it.
    """
    newer = Term(term + 1)
    if storage.exists(layout.term_name(newer)):
        raise fenced(storage, term, newer)


def fenced(storage: Storage, term: Term, newer: Term) -> Fenced:
    """The error for the driver of ``term`` when the one of ``newer`` has replaced it."""
    try:
        who = read_term(storage, newer).who
    except LogDamaged:
        who = ""
    return Fenced(
        f"the driver of term {newer}{f' ({who})' if who else ''} has taken over the log at {storage.url}; this one, of "
        f"term {term}, stops. If both were meant to run, give one of them another checkpoint"
    )
