"""The desired target of a query: its owner, the order of targets, and durability before any action on one."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable

import msgspec

from binshift.errors import MigrationRefused, TargetOutdated, TargetOwned
from binshift.log.log import Log
from binshift.log.records import terms, weights
from binshift.log.records.targets import Target
from binshift.rescale import LOCAL_OWNER

log = logging.getLogger(__name__)

TARGET_TRIES_MAX = 8
"""How often a target is rewritten because another one came in between."""

PROGRAM = ""
"""The owner of targets that the query's own program sets."""

NEXT_GENERATION = -1
"""Of a target whose generation is the one after the newest."""


def weights_of(target: Target, bins: int) -> weights.Weights | None:
    """The loads by which the workers of a target share the bins; None: every bin counts the same."""
    try:
        return weights.unpack(target.weights, bins)
    except ValueError as damage:
        log.warning(
            "the bins are shared by their number, as the target of generation %s has %s", target.generation, damage
        )
        return None


class DesiredTarget:
    """The newest target of one log, as this driver knows it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.target: Target | None = None

    def read(self) -> Target | None:
        """The newest one there is; None before the first."""
        self.target = self._log.targets.newest().target
        return self.target

    def check_owner(self, owner: str) -> None:
        """Reject the query's own program if the target has another owner.

        Raises:
            TargetOwned: it does.
        """
        if owner == PROGRAM and self.target is not None and self.target.owner != PROGRAM:
            how = "`binshift scale N`" if self.target.owner == LOCAL_OWNER else "`kubectl scale sdf NAME --replicas N`"
            raise TargetOwned(f"the target of this query belongs to {self.target.owner!r}: use {how}")

    def write(self, target: Target) -> bool:
        """Make a target durable; False if it already is.

        Raises:
            TargetOutdated: the owner has set a newer generation already, or this one with other content.
            TargetOwned: as `check_owner`.
            MigrationRefused: too many others were set at the same moment.
            Fenced: a newer driver has taken over.
            StorageUnavailable: it is not known whether it was written.
        """

        def follow(last: Target | None) -> Target | None:
            self.check_owner(target.owner)
            generation = (last.generation if last else 0) + 1
            wanted = msgspec.structs.replace(target, generation=generation) if target.generation < 0 else target
            return wanted if last is None or follows(wanted, last) else None

        return self._write(follow)

    def reweigh(self, first: Target) -> None:
        """Make durable by which loads the workers share the bins; whose target it is, and of which generation, stays.

        Where there is no target yet, it is ``first``, which has the loads. Errors as `write`.
        """
        loads = first.weights
        if not self._write(lambda last: last and msgspec.structs.replace(last, weights=loads, assignments=())):
            self.write(first)

    def _write(self, decide: Callable[[Target | None], Target | None]) -> bool:
        """Write what follows from the newest target, decided again if another one came in between; False if nothing does."""
        for _ in range(TARGET_TRIES_MAX):
            number, self.target = self._log.targets.newest()
            wanted = decide(self.target)
            if wanted is None:
                return False
            wanted = msgspec.structs.replace(wanted, nonce=secrets.token_hex(8))
            if self._log.targets.write(wanted, number):
                # A driver that came after this one has read the targets already: ask it, not this one.
                terms.check_newest(self._log.storage, self._log.term)
                self.target = wanted
                return True
        raise MigrationRefused(f"{TARGET_TRIES_MAX} other targets were set at the same moment; ask again")


def _request(target: Target) -> Target:
    """The owner's request: without the measured loads by which bins are shared."""
    return msgspec.structs.replace(target, nonce="", weights="", assignments=())


def follows(target: Target, last: Target) -> bool:
    """Whether ``target`` is newer than ``last``; False for the same request with the same generation.

    Raises:
        TargetOutdated: it is older, or of the same generation and different.
    """
    if target.owner != last.owner or target.generation > last.generation:
        return True
    if target.generation < last.generation:
        raise TargetOutdated(
            f"generation {target.generation} was outdated by {last.generation}: read the target, then set a newer one"
        )
    if _request(target) == _request(last):
        return False
    raise TargetOutdated(f"generation {target.generation} was set already, with other workers or settings")
