"""Desired targets: where the bins should be, durable before the request for it is answered.

Targets are numbered from 1 and the newest counts. Writing is compare-and-set: a target names the one it was decided after, and
fails if another came in between, so that (owner, generation) is compared with the actual newest one. This module does not know
what a target means, or how it is reached.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from binshift.errors import LogDamaged, reading
from binshift.log.records import envelope
from binshift.log.records.commits import Assignment
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage

log = logging.getLogger(__name__)

TARGET_BYTES_MAX = 4 * 1024 * 1024
ASK_AGAIN = "bins stay where they are: set the target again"
"""What to do about a damaged target: it has the placement of bins, and nothing about their content."""


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A desired placement. New fields get defaults, so that older targets stay readable.

    Attributes:
        owner: its only writer: an operator's resource UID, or empty for the query's own program.
        generation: the owner's number for it; an older one never replaces a newer one of the same owner.
        workers: that bins may be on.
        strategy: how the plan is cut into steps.
        batch_size: bins a step, for strategies that use it.
        pre_copy: whether bins are copied ahead of their flips.
        latency_target_seconds: what pacing aims at; None for its default.
        assignments: bins that must be on a certain worker; the others are balanced.
        weights: the load of every bin by which they are balanced, as `binshift.log.records.weights` packs it; empty: all count the same.
        nonce: makes each request's bytes unique, to distinguish a lost reply from another writer's success.
    """

    format: int = FORMAT_VERSION
    owner: str
    generation: int
    workers: tuple[int, ...]
    strategy: str
    batch_size: int
    pre_copy: bool
    latency_target_seconds: float | None = None
    assignments: tuple[Assignment, ...] = ()
    weights: str = ""
    nonce: str = ""


_decoder = msgspec.json.Decoder(Target)


class Newest(NamedTuple):
    """The target that counts.

    Attributes:
        number: its number, counted from 1; 0 if there never was one.
        target: None if there never was one, or if its file is damaged.
    """

    number: int
    target: Target | None


class Targets:
    """The targets of one log."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def newest(self) -> Newest:
        """The target that counts.

        Never an older one in place of a damaged one: bins would move back to obsolete workers.

        Raises:
            ForeignLog: a newer binshift wrote it.
            StorageUnavailable: the store did not answer.
        """
        numbers = [file.number for each in self._storage.list(layout.TARGETS) if (file := layout.parse(each.name))]
        number = max(numbers, default=0)
        try:
            return Newest(number, self.read(number) if number else None)
        except LogDamaged as error:
            log.warning("%s", error)
            return Newest(number, None)

    def read(self, number: int) -> Target:
        """The target of that number; errors as `newest`.

        Raises:
            LogDamaged: it was altered or cut off; LogFileMissing if it is not kept (any more).
        """
        name = layout.target_name(number)
        with reading(name):
            return envelope.decode(name, self._storage.get(name), _decoder, TARGET_BYTES_MAX, ASK_AGAIN)

    def write(self, target: Target, after: int) -> bool:
        """Make ``target`` the one that follows number ``after`` (0: the first), durably.

        False if another one did meanwhile: read `newest` and decide again.

        Raises:
            StateTooLarge: it exceeds its size limit.
            StorageUnavailable: it is not known whether it was written; repeat the same call to find out.
        """
        name = layout.target_name(after + 1)
        if not self._storage.put_if_absent(name, envelope.encode(name, target, TARGET_BYTES_MAX)):
            return False
        return self.newest().number == after + 1
