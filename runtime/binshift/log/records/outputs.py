"""Whose files are an epoch's result: decided once, by creating a file, so that all drivers and all replays agree.

Two runs of an epoch, perhaps by two drivers at the same time, each write files of their own. The first to create
``outputs/<epoch>-0.json`` names the folder that counts; every other run finds that file and publishes the same folder.
Where the named files are gone (someone took them away, or the query now writes elsewhere), the next number is chosen in
the same way.

A driver may sleep for so long that retention removes the file that should have stopped it. So it checks for a newer term after
it has created one (invariant I8). This check cannot be answered from an old cache: retention waits for longer than clients of
file servers keep one.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from binshift.errors import LogError
from binshift.log.records import envelope, terms
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.model import Epoch, Term

OUTPUT_BYTES_MAX = 64 * 1024
CHOICES_MAX = 100
"""How often the files of one epoch may disappear."""
ADVICE = "delete it, and the folder of that epoch's results if it has no _SUCCESS, and start the query again"


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The files that are an epoch's result.

    Attributes:
        epoch: its number.
        term: of the driver whose run wrote them.
        place: the directory of all results.
        folder: the name under which they were written there; unique forever.
    """

    format: int = FORMAT_VERSION
    epoch: int
    term: int
    place: str
    folder: str


_decoder = msgspec.json.Decoder(Output)


def choose(storage: Storage, term: Term, epoch: Epoch, place: str, folder: str) -> Iterator[Output]:
    """What counts as the result of ``epoch``: the first is what was chosen first, perhaps now and perhaps ``folder``.

    Take the next only if the files of all before it are not at ``place``, neither written nor published.

    Args:
        storage: of the log.
        term: of this driver.
        epoch: one that is recorded.
        place: as in `Output`.
        folder: with files that are all there; proposed if nothing was chosen before.

    Raises:
        Fenced: a newer driver has opened the log.
        LogDamaged: an earlier choice cannot be read.
        StorageUnavailable, DiskFull: the choice is not known; repeat the same call to find out.
    """
    mine = Output(epoch=epoch, term=term, place=place, folder=folder)
    for seq in range(CHOICES_MAX):
        name = layout.output_name(epoch, seq)
        if storage.put_if_absent(name, envelope.encode(name, mine, OUTPUT_BYTES_MAX)):
            terms.check_newest(storage, term)
            yield mine
        else:
            yield read(storage, name)
    raise LogError(f"the result files of epoch {epoch} have disappeared from {place} {CHOICES_MAX} times")


def read(storage: Storage, name: str) -> Output:
    """An earlier choice. Raises LogDamaged (ForeignLog) if its file cannot be read."""
    return envelope.decode(name, storage.get(name), _decoder, OUTPUT_BYTES_MAX, ADVICE)
