"""The options of the source ``binshift-state``: those of Spark's ``statestore``, with their meanings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from binshift.errors import InvalidQuery
from binshift.log.records.formats import OperatorFormat
from binshift.model import Epoch
from binshift.operators.stored import COLLECTED, SINGLE_STORE, VARIABLES, Form, StoredRows
from binshift.state.reader import Changes, StateLog, StateRows

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

PROCESSORS = "transformWithState"
"""How the names of operators that run processors begin."""

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
        variable: of a processor; None: another kind of rows.
        timers: whether registered timers are read.
        flat: whether each element of a list and entry of a map is a row.
    """

    path: str
    operator: int = 0
    name: str | None = None
    epoch: Epoch | None = None
    changes: tuple[Epoch, Epoch | None] | None = None
    since: Epoch | None = None
    bin: int | None = None
    variable: str | None = None
    timers: bool = False
    flat: bool = True

    @classmethod
    def of(cls, given: Mapping[str, str]) -> StateOptions:
        """From options of a reader.

        Raises:
            InvalidQuery: an unknown option, a wrong value, or options that exclude each other.
        """
        return _Parser(given).options()

    def located(self, log: StateLog) -> tuple[OperatorFormat, StoredRows]:
        """The operator and its rows. Errors as `StateLog.rows_of`, and with Spark's conditions where a variable is missing."""
        operator = log.operator(self.operator)
        known = log.kinds(operator)
        if self.timers or self.variable is not None:
            rows = self._of_processor(operator, known)
        elif self.name is None and any(each.form in (*VARIABLES, Form.TIMER) for each in known):
            raise InvalidQuery(
                f"[STDS_REQUIRED_OPTION_UNSPECIFIED] 'stateVarName' must be specified. {_choices(operator, known)}"
            )
        else:
            rows = log.rows_of(operator, self.name)
        return operator, rows if self.flat or rows.form not in COLLECTED else replace(rows, collected=True)

    def _of_processor(self, operator: OperatorFormat, known: Sequence[StoredRows]) -> StoredRows:
        kind = operator.name.partition(".")[2]
        if not kind.startswith(PROCESSORS):
            raise _wrong(
                "readRegisteredTimers" if self.timers else "stateVarName",
                "Providing state variable names is only supported with the transformWithState operator. "
                f"Found operator={kind}. Please remove this option and re-run the query.",
            )
        for each in known:
            if (each.form is Form.TIMER) if self.timers else (each.form in VARIABLES and each.name == self.variable):
                return each
        if self.timers:
            raise _wrong("readRegisteredTimers", "Registered timers are not available in timeMode=None.")
        raise _wrong(
            "stateVarName",
            f"State variable {self.variable} is not defined for the transformWithState operator. {_choices(operator, known)}",
        )

    def source(self, log: StateLog) -> StateRows | Changes:
        """What is read. Errors as `StateLog.at` and `StateLog.changes`."""
        operator, rows = self.located(log)
        if self.changes is not None:
            return log.changes(operator, rows, *self.changes)
        return log.at(operator, rows, self.epoch, self.since)


def _choices(operator: OperatorFormat, known: Sequence[StoredRows]) -> str:
    names = ", ".join(each.name for each in known if each.form in VARIABLES) or "none"
    return f"The variables of operator {operator.name}: {names}"


def _wrong(option: str, message: str) -> InvalidQuery:
    return InvalidQuery(
        f"[STDS_INVALID_OPTION_VALUE.WITH_MESSAGE] Invalid value for source option '{option}': {message}"
    )


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
            self._given.get("stateVarName"),
            self._boolean("readRegisteredTimers", False),
            self._boolean("flattenCollectionTypes", True),
        )

    def _name(self) -> str | None:
        side, variable = self._given.get("joinSide", "none").lower(), self._given.get("stateVarName")
        store = self._given.get("storeName")
        if side not in ("left", "right", "none"):
            raise InvalidQuery(f"joinSide is {side!r}; it is left, right or none")
        given = {
            "joinSide": side != "none",
            "stateVarName": variable is not None,
            "readRegisteredTimers": self._boolean("readRegisteredTimers", False),
            "storeName": store not in (None, SINGLE_STORE),
        }
        chosen = [name for name, present in given.items() if present]
        if len(chosen) > 1:
            raise InvalidQuery(
                f"[STDS_CONFLICT_OPTIONS] The options [{', '.join(chosen)}] cannot be specified together. Please specify the one."
            )
        return side if given["joinSide"] else store

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
