"""What several queries did together: which migration of each is part of which joint one.

A query keeps its newest migrations only, and each query has its own; so a part may be gone while the others exist. A part that
is gone has its last observed state; one that was in progress then is left out, as its result is not known. A joint migration
must never fail as a whole because a part is gone: readers of a dataflow request none of them by number.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from binshift.control.models import Migration
from binshift.control.services import ControlService
from binshift.errors import NoSuchMigration

JOINT_FIRST: Final = 1_000_000_000
"""No query has begun so many migrations by itself. Added to the highest number among the parts, which increases with the
driver's
term: a restarted driver never reuses a number of its predecessor."""
JOINT_KEPT: Final = 100
"""Of what several queries did together, the newest are remembered."""
ENDED: Final = frozenset({"settled", "cancelled", "failed"})


@dataclass
class _Part:
    """What one query does of a joint migration.

    Attributes:
        service: of the query; None once the program has it no more.
        last: its migration, as last seen.
    """

    service: ControlService | None
    last: Migration

    def now(self) -> Migration | None:
        """As it is, or as it ended; None if the query has forgotten it, or is gone, and its end was not observed."""
        service = self.service
        if service is not None:
            with suppress(NoSuchMigration):
                self.last = service.migration(self.last.id)
                return self.last
        return self.last if self.last.phase in ENDED else None

    def cancel(self, *, rollback: bool) -> Migration | None:
        """Stop it, if it is still there."""
        service = self.service
        if service is not None:
            with suppress(NoSuchMigration):
                return service.cancel(self.last.id, rollback=rollback)
        return self.now()

    def release(self) -> None:
        """The program has the query no more: nothing is kept of it but how this went."""
        self.now()
        self.service = None


class JointHistory:
    """The newest joint migrations, in the order of their numbers; any thread may call it."""

    def __init__(self) -> None:
        self._joint: OrderedDict[int, Sequence[_Part]] = OrderedDict()
        self._next = JOINT_FIRST
        self._lock = threading.Lock()

    def begin(self, begun: Sequence[tuple[ControlService, Migration]]) -> Migration:
        """What each of these queries has begun is one from now on; the oldest is forgotten."""
        with self._lock:
            number = max(self._next, JOINT_FIRST + max(migration.id for _, migration in begun))
            self._next = number + 1
            self._joint[number] = [_Part(service, migration) for service, migration in begun]
            while len(self._joint) > JOINT_KEPT:
                self._joint.popitem(last=False)
        return merged(number, [migration for _, migration in begun])

    def keep(self, services: Sequence[ControlService]) -> None:
        """The program has these queries, and no others any more."""
        with self._lock:
            parts = [part for each in self._joint.values() for part in each]
        for part in parts:
            if not any(part.service is service for service in services):
                part.release()

    def __contains__(self, number: int) -> bool:
        with self._lock:
            return number in self._joint

    def migration(self, number: int) -> Migration:
        """All parts as one.

        Raises:
            NoSuchMigration: there is none of that number, or nothing is known of it any more.
        """
        return _one(number, [part.now() for part in self._parts(number)])

    def cancel(self, number: int, *, rollback: bool) -> Migration:
        """Cancel every part. Errors as `migration`."""
        return _one(number, [part.cancel(rollback=rollback) for part in self._parts(number)])

    def newest(self, limit: int) -> Sequence[Migration]:
        """Those of which anything is known, newest last."""
        with self._lock:
            joint = list(self._joint.items())[-limit:]
        seen = ((number, [part.now() for part in parts]) for number, parts in joint)
        return [_one(number, parts) for number, parts in seen if any(parts)]

    def shown(self) -> Migration | None:
        """The newest one in progress, else the newest; ended ones are not requested again."""
        with self._lock:
            joint = list(reversed(self._joint.items()))
        newest = None
        for number, parts in joint:
            if newest is not None and all(part.last.phase in ENDED for part in parts):
                continue
            seen = [part.now() for part in parts]
            found = _one(number, seen) if any(seen) else None
            if found is not None and found.phase not in ENDED:
                return found
            newest = newest or found
        return newest

    def _parts(self, number: int) -> Sequence[_Part]:
        with self._lock:
            return self._joint.get(number, ())


def merged(number: int, parts: Sequence[Migration]) -> Migration:
    """Several as one: in the phase of the first that has not ended; failed or cancelled if one is."""
    spoilt = [each for each in parts if each.phase in ENDED and each.phase != "settled"]
    leading = next((each for each in parts if each.phase not in ENDED), (spoilt or parts)[0])
    counts = ("steps_flipped", "steps_inflight", "steps_total", "bins_moved", "bins_copied", "bins_total")
    summed = {
        name: added([getattr(each, name) for each in parts])
        for name in (*counts, "bytes_moved", "bytes_copied", "bytes_total")
    }
    left = [each.seconds_left for each in parts if each.seconds_left is not None]
    return leading.model_copy(update={**summed, "id": number, "seconds_left": max(left, default=None)})


def added(numbers: Sequence[int | None]) -> int | None:
    """The sum of the known ones; None if none is."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None


def _one(number: int, parts: Sequence[Migration | None]) -> Migration:
    known = [each for each in parts if each is not None]
    if not known:
        raise NoSuchMigration(
            f"there is no migration {number} of all queries; GET /v1/queries lists the queries, and "
            "/v1/queries/NAME/migrations the migrations of one"
        )
    return merged(number, known)
