"""The log as a driver holds it: open, append, write manifests, forget.

This is the I/O around the pure index: it reads and writes files and makes no decision that the pure modules could make. Opening
changes nothing before all checks have passed; then it takes a term. Appending makes an epoch exist (invariant I3): one
create-if-absent. The loser of that race reads the record that counts.

It must never overwrite a record, and never delete a file that retention did not name twice, a grace period apart. `append`
belongs to the epoch's thread; `write_manifest` and `collect` may run concurrently.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from binshift import failpoints
from binshift.errors import LogDamaged
from binshift.invariants import InvariantViolated, invariant
from binshift.log.index import finding, loading, manifests, retention
from binshift.log.index.index import Index
from binshift.log.records import formats, terms
from binshift.log.records.commits import CommitRecord, decode_record, encode_record
from binshift.log.records.formats import LogFormat
from binshift.log.records.targets import Targets
from binshift.log.records.terms import Driver
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.log.storage.opening import open_storage, probe
from binshift.model import BEFORE_FIRST, Epoch, Term

logger = logging.getLogger(__name__)

GRACE_SECONDS = 900.0
"""How long garbage is left lying: longer than any task reads from an old list of files, or writes one file."""


PARTIAL_GRACE_SECONDS = 900.0
"""The minimum for files without their final name: neither fence nor record shows whether a task still writes them."""


class Log:
    """One driver's log; make it with `open`.

    Attributes:
        storage: the files, for writers of deltas and snapshots.
        format: what the values mean.
        driver: this one.
        term: this driver's.
        warnings: damage at opening that did not prevent it.
        targets: the desired targets.
    """

    def __init__(
        self, storage: Storage, format: LogFormat, driver: Driver, loaded: loading.Loaded, grace: float
    ) -> None:
        self.storage = storage
        self.format = format
        self.driver = driver
        self.term = driver.term
        self.warnings = loaded.warnings
        self.targets = Targets(storage)
        self._index = loaded.index
        self._grace_seconds = grace
        self._garbage_since: dict[str, float] = {}
        self._held = BEFORE_FIRST
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        url: str,
        options: Mapping[str, str],
        format: LogFormat,
        *,
        who: str = "",
        spark_committed: Callable[[], Epoch] | None = None,
        grace_seconds: float = GRACE_SECONDS,
    ) -> Log:
        """Open, or create, the log at ``url`` for this driver; see `on`."""
        storage = open_storage(url, options)
        return cls.on(storage, format, who=who, spark_committed=spark_committed, grace_seconds=grace_seconds)

    @classmethod
    def on(
        cls,
        storage: Storage,
        format: LogFormat,
        *,
        who: str = "",
        spark_committed: Callable[[], Epoch] | None = None,
        grace_seconds: float = GRACE_SECONDS,
        nonce: str | None = None,
    ) -> Log:
        """Open, or create, the log in ``storage``.

        ``who`` names this driver to others (host, process); ``spark_committed`` reads the last epoch in Spark's own commit log
        (-1: none), to notice records that are missing at the end, and logs that do not match; ``nonce`` is unique forever.

        Raises:
            ForeignLog: there is something else, another query's log, or one of another binshift version.
            IncompatibleState: bins or operators differ.
            LogDamaged: files are missing or damaged. In these three cases nothing was written.
            InvalidSettings: the store lacks what a log needs (see `storage.probe`), or refuses access.
            StorageUnavailable: the store did not answer; try again.
        """
        nonce = nonce or secrets.token_hex(16)
        formats.check_wanted(format)
        # The driver before this one may still run: what Spark had committed before the records are read is among them, and the
        # records read are followed by what Spark commits.
        before = None if spark_committed is None else spark_committed()
        found, loaded = finding.find(storage, format)
        index = loaded.index
        if before is not None and spark_committed is not None:
            finding.check_spark(storage.url, index, before, spark_committed)
        probe(storage, nonce)
        if found == "nothing":
            formats.create_format(storage, format)
        elif found == "damaged":
            formats.restore_format(storage, format)
        term = terms.take_term(storage, who, nonce, loading.highest_term(storage, index))
        index = loading.catch_up(storage, index)
        driver = Driver(term, nonce, index.last)
        return cls(storage, format, driver, loading.Loaded(index, loaded.warnings), grace_seconds)

    @property
    def index(self) -> Index:
        """The log as of now; the value itself never changes."""
        return self._index

    def append(self, record: CommitRecord) -> CommitRecord:
        """Make the record's epoch exist; returns the record that counts.

        That is another one than ``record`` if the epoch exists already, by an older driver or an earlier run of this
        one whose end was not seen: adopt it (its state wins), the index has it already.

        Raises:
            Fenced: a newer driver has opened the log; the message names it. The epoch may exist.
            InvariantViolated: the record does not follow from those before it; nothing was written.
            StateTooLarge: the record exceeds its size limit; nothing was written.
            StorageUnavailable: it is not known whether the epoch exists; repeat the same call to find out.
        """
        invariant(record.term == self.term, f"a record of term {record.term} by the driver of term {self.term}")
        name = layout.record_name(Epoch(record.epoch))
        data = encode_record(record)
        with self._lock:
            try:
                after = self._index.apply(record)
            except LogDamaged as error:
                raise InvariantViolated(f"a record that does not fit was about to be written: {error}") from error
            counts = record
            failpoints.reached("record.before")
            if not self.storage.put_if_absent(name, data):
                counts = decode_record(name, self.storage.get(name))
                if counts.term > self.term:
                    raise terms.fenced(self.storage, self.term, Term(counts.term))
                after = self._index.apply(counts)
            failpoints.reached("record.after")
            self._index = after
        terms.check_newest(self.storage, self.term)
        return counts

    def mark_unusable(self, name: str) -> bool:
        """Stop using a delta or snapshot that turned out damaged or missing, from now on.

        An older snapshot is used if one reaches back far enough. False if nothing needs the file (any more), or if it is marked
        already.

        Raises:
            LogDamaged, ForeignLog, StorageUnavailable: as `on`; nothing has changed.
        """
        with self._lock:
            before = self._index
            if name in before.unusable or name not in retention.named_files(before):
                return False
            unusable = before.unusable | {name}
            logger.warning("%s is damaged or missing: its content is rebuilt from other files, or rewritten", name)
            # Older snapshots than this driver has in mind are still named by the records.
            found = loading.load(self.storage, self.format, unusable).index
            self._index = found if found.tip == before.tip else replace(before, unusable=unusable)
            return True

    def write_manifest(self, epoch: Epoch) -> None:
        """Write the manifest of everything up to ``epoch``; once this returns, a later record may name it.

        Raises:
            InvariantViolated: that epoch's record is not held (any more).
            StateTooLarge: the manifest exceeds its size limit: have snapshots made more often.
            StorageUnavailable: it is not known whether it exists; the same call can be repeated.
        """
        data = manifests.encode_manifest(self._index, epoch)
        failpoints.reached("manifest.before")
        self.storage.put(layout.manifest_name(epoch), data)
        failpoints.reached("manifest.after")

    def collect(
        self,
        *,
        spark_committed: Epoch,
        now: float,
        pending: Collection[str] = (),
    ) -> None:
        """Remove what no reader can need: trim the index now, delete files that were garbage for the grace period.

        No copy may be under way. ``spark_committed`` is the newest epoch that Spark has committed; ``pending`` has the names
        of snapshots that were written or ordered and are not in a record yet; ``now`` is a clock in seconds that only grows.

        Raises:
            Fenced: a newer driver has opened the log; nothing was deleted.
            StorageUnavailable: some files may be gone; the same call again is fine.
        """
        terms.check_newest(self.storage, self.term)
        with self._lock:
            floor = retention.floor(self._index, spark_committed)
            self._index = index = retention.trimmed(self._index, floor)
        listed = [each.name for folder in ("", layout.PARTIAL) for each in self.storage.list(folder)]
        dead = retention.unheld(retention.garbage(index, listed, floor, self.term, pending), self._held)
        self._garbage_since = {name: self._garbage_since.get(name, now) for name in dead}
        due = [name for name in dead if now - self._garbage_since[name] >= self._grace_of(name)]
        failpoints.reached("retention.before")
        self.storage.delete(due)

    @contextmanager
    def hold(self, epoch: Epoch | None = None) -> Iterator[Index]:
        """While this lasts, no file of ``epoch`` (the last one by default) or an earlier epoch is deleted; gives the index of now.

        What the index names stays, then. A collection that has begun before can still delete what was garbage in its index.
        One hold at a time. The index keeps trimming.
        """
        with self._lock:
            invariant(self._held == BEFORE_FIRST, f"the log is already held at epoch {self._held}")
            index = self._index
            self._held = index.last if epoch is None else epoch
        try:
            yield index
        finally:
            self._held = BEFORE_FIRST

    def _grace_of(self, name: str) -> float:
        return max(self._grace_seconds, PARTIAL_GRACE_SECONDS if name.startswith(layout.PARTIAL) else 0.0)
