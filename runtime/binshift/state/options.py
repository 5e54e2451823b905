"""The options of the source ``binshift-state``: those of Spark's ``statestore``, with their meanings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from binshift.errors import InvalidQuery
from binshift.log.records.formats import OperatorFormat
from binshift.model import Epoch
from binshift.operators.stored import SINGLE_STORE, StoredRows
from binshift.state.reader import Changes, StateLog, StateRows

TIMERS = "timers"
"""The name of rows that are registered timers."""

OPTIONS = (
    "path",
    "batchId",
    "operatorId",
    "storeName",
    "joinSide",
    "stateVarName",
    "readRegisteredTimers",
    "flattenCollectionTypes",
    "readChangeFeed",
    "changeStartBatchId",
    "changeEndBatchId",
    "snapshotStartBatchId",
    "snapshotPartitionId",
)
"""Names are case-insensitive, as in Spark."""

_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class StateOptions:
    """What to read.

    Attributes:
        path: the location of a checkpoint.
        operator: the number of an operator.
        name: of its rows; None: the only ones.
        epoch: whose state; None: the newest.
        changes: the first and the last epoch of a change feed; None: no change feed. The last one is None for the newest.
        since: the newest snapshot to begin with; None: the best one.
        bin: the only one to read; None: all.
    """

    path: str
    operator: int = 0
    name: str | None = None
    epoch: Epoch | None = None
    changes: tuple[Epoch, Epoch | None] | None = None
    since: Epoch | None = None
    bin: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StateOptions:
        """From options of a reader.

        Raises:
            InvalidQuery: an unknown option, a wrong value, or options that exclude each other.
        """
        return _Parser(given).options()

    def located(self, log: StateLog) -> tuple[OperatorFormat, StoredRows]:
        """The operator and its rows. Errors as `StateLog.rows_of`."""
        operator = log.operator(self.operator)
        return operator, log.rows_of(operator, self.name)

    def source(self, log: StateLog) -> StateRows | Changes:
        """What is read. Errors as `StateLog.at` and `StateLog.changes`."""
        operator, rows = self.located(log)
        if self.changes is not None:
            return log.changes(operator, rows, *self.changes)
        return log.at(operator, rows, self.epoch, self.since)


class _Parser:
    def __init__(self, given: Mapping[str, str]) -> None:
        known = {name.lower(): name for name in OPTIONS}
        unknown = [key for key in given if key.lower() not in known]
        if unknown:
            raise InvalidQuery(f"binshift-state has no option {unknown[0]!r}; options are {', '.join(OPTIONS)}")
        self._given = {known[key.lower()]: value for key, value in given.items()}

    def options(self) -> StateOptions:
        path = self._given.get("path", "")
        if not path:
            raise InvalidQuery("binshift-state needs the path of a checkpoint: load(path)")
        if not self._boolean("flattenCollectionTypes", True):
            raise InvalidQuery("flattenCollectionTypes is false; rows of lists and maps are read one element a row")
        changes, epoch, since = self._changes(), self._number("batchId"), self._number("snapshotStartBatchId")
        if changes is not None and (epoch is not None or since is not None):
            raise InvalidQuery("readChangeFeed excludes batchId and snapshotStartBatchId: it reads epochs, not a state")
        operator, bin = self._number("operatorId"), self._number("snapshotPartitionId")
        return StateOptions(
            path,
            operator or 0,
            self._name(),
            None if epoch is None else Epoch(epoch),
            changes,
            None if since is None else Epoch(since),
            bin,
        )

    def _name(self) -> str | None:
        side, variable = self._given.get("joinSide", "none").lower(), self._given.get("stateVarName")
        store = self._given.get("storeName")
        if side not in ("left", "right", "none"):
            raise InvalidQuery(f"joinSide is {side!r}; it is left, right or none")
        timers = TIMERS if self._boolean("readRegisteredTimers", False) else None
        names = [side if side != "none" else None, variable, timers, None if store == SINGLE_STORE else store]
        chosen = [name for name in names if name is not None]
        if len(chosen) > 1:
            raise InvalidQuery(
                "joinSide, stateVarName, readRegisteredTimers and storeName exclude each other; give one of them"
            )
        return chosen[0] if chosen else store

    def _changes(self) -> tuple[Epoch, Epoch | None] | None:
        first, last = self._number("changeStartBatchId"), self._number("changeEndBatchId")
        if not self._boolean("readChangeFeed", False):
            if first is not None or last is not None:
                raise InvalidQuery("changeStartBatchId and changeEndBatchId need readChangeFeed=true")
            return None
        if first is None:
            raise InvalidQuery("readChangeFeed needs changeStartBatchId, the first epoch")
        return Epoch(first), None if last is None else Epoch(last)

    def _number(self, name: str) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        if not text.isdecimal():
            raise InvalidQuery(f"{name} is {text!r}; it is a number from 0 on")
        return int(text)

    def _boolean(self, name: str, default: bool) -> bool:
        text = self._given.get(name)
        if text is None:
            return default
        if text.lower() not in _BOOLEANS:
            raise InvalidQuery(f"{name} is {text!r}; it is true or false")
        return _BOOLEANS[text.lower()]
