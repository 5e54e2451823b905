"""What a log holds state of, and whether a query may use it.

``format.json`` is written once, before anything else, and never changed. It is compared first of all: a query with other bins,
operators, keys or aggregates than those of the log would misread every value in it. Before the comparison has succeeded, the
directory is only read, so a rejected one is unchanged. If the file itself is damaged or lost, the records identify their query
(`LogFormat.fingerprint`), which writes the file again.
"""

from __future__ import annotations

import msgspec

from binshift.errors import ForeignLog, IncompatibleState, InvalidSettings, LogDamaged, LogFileMissing
from binshift.log.records import envelope
from binshift.log.records.envelope import FORMAT_VERSION, digest
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage
from binshift.model import BINS_MAX

FORMAT_BYTES_MAX = 1024 * 1024


class VariableFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of row in the state of an operator, as its description by the operator (`binshift.operators.stored`).

    Attributes:
        name: unique in the operator: of a store or side, as in Spark, or the user's name of a variable.
        form: how keys and values are stored, by name.
        keys: the columns of the key: an Arrow schema, serialised by Arrow, as base64.
        values: the columns of the value, likewise.
        hidden: how many of the last columns of the value are not the user's.
        delay_ms: how far the watermark that ends the rows is behind the query's, in milliseconds.
    """

    name: str
    form: str
    keys: str
    values: str
    hidden: int = 0
    delay_ms: int = 0


class OperatorFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stateful operator of the query.

    Attributes:
        name: part of file names.
        fingerprint: equal for operators that read each other's state.
        description: what the fingerprint stands for, for people: keys, aggregates, types.
        state: what its rows are, for tools; empty if an earlier binshift wrote it, or the operator does not describe them.
    """

    name: str
    fingerprint: str
    description: str = ""
    state: tuple[VariableFormat, ...] = ()


class LogFormat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the values in a log mean.

    Attributes:
        bins: how many; fixed forever.
        query: Spark's id of the query, which stays the same over restarts.
        operators: all stateful operators.
    """

    format: int = FORMAT_VERSION
    bins: int
    query: str
    operators: tuple[OperatorFormat, ...]

    @property
    def operator_names(self) -> tuple[str, ...]:
        """The operators' names."""
        return tuple(operator.name for operator in self.operators)

    @property
    def fingerprint(self) -> str:
        """Names the log by what it holds state of: what its first record follows."""
        parts = (self.query, self.bins, sorted((operator.name, operator.fingerprint) for operator in self.operators))
        return digest(msgspec.json.encode(parts))


_decoder = msgspec.json.Decoder(LogFormat)


def read_format(storage: Storage) -> LogFormat | None:
    """The format of the log at ``storage``; None if there is nothing at all.

    Raises:
        ForeignLog: there are files, but not a log's; or a newer binshift's.
        LogDamaged: there is a log without its ``format.json``, or with a damaged one.
    """
    other = ""
    for _ in range(2):  # another driver may be creating it right now: then it is there when its other files are
        try:
            data = storage.get(layout.FORMAT)
            return envelope.decode(layout.FORMAT, data, _decoder, FORMAT_BYTES_MAX)
        except LogFileMissing:
            other = next((each.name for each in storage.list("") if not each.name.startswith(layout.PROBES)), "")
            if not other:
                return None
    if layout.parse(other) is None:
        raise ForeignLog(
            f"{storage.url} is not empty and not a log of binshift: it has {other!r}. Give the query an empty checkpoint "
            "location of its own"
        ) from None
    raise LogDamaged(f"{layout.FORMAT} is missing at {storage.url}, which has {other}: {envelope.RESTORE}")


def create_format(storage: Storage, wanted: LogFormat) -> None:
    """Make ``storage`` a log of ``wanted``, unless another driver has just done so.

    Raises:
        ForeignLog, IncompatibleState: another driver did, for something else.
    """
    if not storage.put_if_absent(layout.FORMAT, envelope.encode(layout.FORMAT, wanted, FORMAT_BYTES_MAX)):
        found = read_format(storage)
        if found is not None:
            check_compatible(storage.url, found, wanted)


def restore_format(storage: Storage, wanted: LogFormat) -> None:
    """Rewrite ``format.json``, in place of one that was damaged or lost. The log must be known to be of ``wanted``."""
    storage.put(layout.FORMAT, envelope.encode(layout.FORMAT, wanted, FORMAT_BYTES_MAX))


def check_wanted(wanted: LogFormat) -> None:
    """Refuse a format that no log can have.

    Raises:
        InvalidSettings: the bins are no power of two up to `BINS_MAX`, or an operator's name is unfit or taken twice.
    """
    if not 1 <= wanted.bins <= BINS_MAX or wanted.bins & (wanted.bins - 1):
        raise InvalidSettings(f"bins is {wanted.bins}; choose a power of two between 1 and {BINS_MAX}, such as 4096")
    for name in wanted.operator_names:
        layout.check_operator(name)
        if wanted.operator_names.count(name) > 1:
            raise InvalidSettings(f"two stateful operators are named {name!r}: give each a name of its own")


def check_compatible(url: str, found: LogFormat, wanted: LogFormat) -> None:
    """Refuse to use the state of ``found`` for ``wanted``.

    Raises:
        ForeignLog: it is another query's.
        IncompatibleState: bins or operators differ; the message names the difference.
    """
    if found.query != wanted.query:
        raise ForeignLog(
            f"{url} is, by its {layout.FORMAT}, the log of query {found.query}, not of {wanted.query}: give each query a "
            "checkpoint of its own"
        )
    if found.bins != wanted.bins:
        raise IncompatibleState(
            f"the log at {url} was made with {found.bins} bins, the query has {wanted.bins}: the number is fixed "
            f"for the life of a checkpoint. Set binshift.bins to {found.bins}, or start with another checkpoint"
        )
    was, now = ({operator.name: operator for operator in each.operators} for each in (found, wanted))
    for name in sorted(was.keys() | now.keys()):
        if name not in now:
            fresh = " and ".join(_called(now[each]) for each in sorted(now.keys() - was.keys()))
            instead = f"; it has {fresh} instead" if fresh else ""
            raise IncompatibleState(
                f"the log at {url} has state of {_called(was[name])}, which the query lacks{instead}. {_HELP}"
            )
        if name not in was:
            raise IncompatibleState(
                f"the query has {_called(now[name])}, of which the log at {url} lacks state. {_HELP}"
            )
        if was[name].fingerprint != now[name].fingerprint:
            raise IncompatibleState(
                f"the log at {url} has state of {_called(was[name])}; the query has {_called(now[name])} instead. {_HELP}"
            )


_HELP = "Undo the change of the program, or start with another checkpoint"


def _called(operator: OperatorFormat) -> str:
    return f"operator {operator.name!r} ({operator.description or operator.fingerprint})"
