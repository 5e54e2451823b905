"""What the tasks of an epoch report of their most frequent keys, for `binshift.hotkeys`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from binshift.hotkeys import Candidate, HotKeys
from binshift.worker.messages import Summary


def add_reports(keys: HotKeys, parts: Sequence[Summary], workers: int) -> None:
    """Add the reports of all tasks of an epoch, in which ``workers`` own bins."""
    records = Counter[str]()
    for part in parts:
        records[part.operator] += part.records_in
    candidates = [
        Candidate(part.operator, part.worker, found.bin, found.key, found.records)
        for part in parts
        if (found := part.frequent_key) is not None
    ]
    keys.add(records, candidates, workers)
