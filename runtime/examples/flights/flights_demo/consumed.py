"""Which files each epoch took, read from the logs that Spark itself keeps of a file source in the checkpoint.

``offsets/<epoch>`` has the source's last entry of an epoch; ``sources/0/<entry>`` (or ``<entry>.compact``, which
repeats all entries before it) names the files of an entry. Both are written before the epoch runs and never change, so
this may be read at any later time, and is exact where counting rows would be a guess. It only reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from binshift.errors import LogDamaged
from binshift.model import Epoch
from flights_demo.replay import file_number

HEADER_LINES = 2
"""Of an offset log entry: a version, and a line about the batch; then one line a source."""


class Consumed:
    """Reads the checkpoint of one query whose only input are the files of a replay.

    Args:
        checkpoint: the query's.
    """

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._entry = -1

    def files(self, epoch: Epoch) -> list[int]:
        """The numbers of the files that ``epoch`` took; epochs must be requested in order.

        Raises:
            LogDamaged: Spark's logs are not there or not as expected.
        """
        path = self._checkpoint / "offsets" / str(epoch)
        try:
            entry = source_entry(path.read_text(encoding="utf-8"))
            found = [file for each in range(self._entry + 1, entry + 1) for file in self._files_of(each)]
        except (OSError, ValueError, KeyError) as error:
            raise LogDamaged(f"{path} or the file source's log next to it cannot be read: {error!r}") from error
        self._entry = entry
        return found

    def _files_of(self, entry: int) -> Iterator[int]:
        folder = self._checkpoint / "sources" / "0"
        plain, compact = folder / str(entry), folder / f"{entry}.compact"
        lines = (plain if plain.exists() else compact).read_text(encoding="utf-8").splitlines()[1:]
        for described in map(json.loads, lines):
            if described["batchId"] == entry:
                yield file_number(described["path"])


def source_entry(offsets: str) -> int:
    r"""The entry of the file source up to which a batch goes; -1 for none yet.

    >>> source_entry('v1\n{"batchTimestampMs":17}\n{"logOffset":4}\n{"value":0}')
    4
    """
    for line in offsets.splitlines()[HEADER_LINES:]:
        found = re.search(r'"logOffset"\s*:\s*(\d+)', line)
        if found is not None:
            return int(found.group(1))
    return -1
