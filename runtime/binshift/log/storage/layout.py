"""The names of the log's files: the only place that builds or reads them.

```
format.json                                             what the log holds state of; created once
owner.json                                              the dataflow whose driver lives, renewed while it does
terms/<term>.json                                       one per driver that ever opened the log
schemas/<seq>.json                                      the schemas of state variables; the newest has all
records/<epoch>.json                                    the commit record that makes an epoch exist
deltas/<epoch>/<operator>-<worker>-<attempt>.arrow      the keys one worker changed in one epoch
snapshots/<epoch>/<operator>-<worker>-<attempt>-<seq>.arrow   all keys of some bins as of one epoch
manifests/<epoch>.json                                  all records still needed, in one file
targets/<seq>.json                                      the desired placement; the newest wins
outputs/<epoch>-<seq>.json                              which run's result files are the epoch's; the first one counts
probes/<nonce>                                          left by a start-up probe that died
.partial/<nonce>                                        a local file still being written
```

Numbers have 20 digits, so that names sort as numbers do. An attempt id starts with its driver's term and a dot, and is unique
forever; retention relies on the term to leave a newer driver's files alone. In a snapshot's name the attempt is
the writer's (the state's own is in the record).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from binshift.errors import InvalidSettings
from binshift.invariants import invariant
from binshift.model import Epoch, Term, Worker

FORMAT = "format.json"
OWNER = "owner.json"
PARTIAL = ".partial/"
PROBES = "probes/"
RECORDS = "records/"
DELTAS = "deltas/"
SNAPSHOTS = "snapshots/"
MANIFESTS = "manifests/"
TERMS = "terms/"
SCHEMAS = "schemas/"
TARGETS = "targets/"
OUTPUTS = "outputs/"

NAME_LENGTH_MAX = 64
_OPERATOR = re.compile(rf"[A-Za-z0-9_.]{{1,{NAME_LENGTH_MAX}}}")
_ATTEMPT = re.compile(rf"(?=.{{1,{NAME_LENGTH_MAX}}}$)(?P<term>[0-9]{{1,18}})(?:\.[A-Za-z0-9_]+)*")
_NUMBERED = re.compile(r"(?P<kind>records|manifests|terms|targets|schemas)/(?P<number>[0-9]{20})\.json")
_OUTPUT = re.compile(rf"{OUTPUTS}(?P<number>[0-9]{{20}})-[0-9]+\.json")
_DATA = re.compile(
    r"(?P<kind>deltas|snapshots)/(?P<number>[0-9]{20})/"
    r"(?P<operator>[A-Za-z0-9_.]+)-(?P<worker>[0-9]+)-(?P<attempt>[A-Za-z0-9_.]+)(?:-(?P<seq>[0-9]+))?\.arrow"
)

Kind = Literal[
    "format",
    "owner",
    "terms",
    "schemas",
    "records",
    "deltas",
    "snapshots",
    "manifests",
    "targets",
    "outputs",
    "probes",
    "partial",
]


class FileName(NamedTuple):
    """The content of a file's name.

    Attributes:
        kind: the folder it is in.
        number: its epoch, term or sequence number; -1 where it has none.
        operator: of deltas and snapshots.
        worker: of deltas and snapshots; -1 elsewhere.
        attempt: the attempt that wrote it; of deltas and snapshots.
    """

    kind: Kind
    number: int = -1
    operator: str = ""
    worker: int = -1
    attempt: str = ""

    @property
    def term(self) -> Term:
        """The term of the driver that had a delta or snapshot written."""
        return term_of(self.attempt)


def parse(name: str) -> FileName | None:
    """The content of ``name``, or None for a name that the log never gives."""
    if name == FORMAT:
        return FileName("format")
    if name == OWNER:
        return FileName("owner")
    if name.startswith(PARTIAL):
        return FileName("partial")
    if name.startswith(PROBES):
        return FileName("probes")
    if found := _NUMBERED.fullmatch(name):
        return FileName(_kind(found["kind"]), int(found["number"]))
    if found := _OUTPUT.fullmatch(name):
        return FileName("outputs", int(found["number"]))
    found = _DATA.fullmatch(name)
    if not found or not _ATTEMPT.fullmatch(found["attempt"]):
        return None
    if (found["seq"] is not None) != (found["kind"] == "snapshots"):
        return None
    worker = int(found["worker"])
    return FileName(_kind(found["kind"]), int(found["number"]), found["operator"], worker, found["attempt"])


def _kind(text: str) -> Kind:
    kinds: dict[str, Kind] = {
        "terms": "terms",
        "records": "records",
        "deltas": "deltas",
        "snapshots": "snapshots",
        "manifests": "manifests",
        "targets": "targets",
        "schemas": "schemas",
    }
    return kinds[text]


def record_name(epoch: Epoch) -> str:
    """The commit record of ``epoch``."""
    return f"{RECORDS}{_number(epoch)}.json"


def manifest_name(epoch: Epoch) -> str:
    """The manifest of everything up to and including ``epoch``."""
    return f"{MANIFESTS}{_number(epoch)}.json"


def term_name(term: Term) -> str:
    """The file by which a driver takes ``term``."""
    return f"{TERMS}{_number(term)}.json"


def schemas_name(seq: int) -> str:
    """The ``seq``-th file of schemas, counted from 1."""
    return f"{SCHEMAS}{_number(seq)}.json"


def target_name(seq: int) -> str:
    """The ``seq``-th desired target, counted from 1."""
    return f"{TARGETS}{_number(seq)}.json"


def output_name(epoch: Epoch, seq: int) -> str:
    """The ``seq``-th choice of the files that are the result of ``epoch``, counted from 0."""
    invariant(seq >= 0, "a choice's sequence number is negative")
    return f"{OUTPUTS}{_number(epoch)}-{seq}.json"


def delta_name(epoch: Epoch, operator: str, worker: Worker, attempt: str) -> str:
    """The delta that ``attempt`` writes.

    Raises:
        InvariantViolated: the attempt id has characters that file names cannot carry, or does not start with a term.
        InvalidSettings: the operator's name has.
    """
    return f"{DELTAS}{_number(epoch)}/{_stem(operator, worker, attempt)}.arrow"


def deltas_of(epoch: Epoch) -> str:
    """The folder of the deltas of ``epoch``."""
    return f"{DELTAS}{_number(epoch)}/"


def snapshot_name(epoch: Epoch, operator: str, worker: Worker, attempt: str, seq: int) -> str:
    """The ``seq``-th snapshot that ``attempt`` writes of the state at ``epoch``; errors as `delta_name`."""
    invariant(seq >= 0, "a snapshot's sequence number is negative")
    return f"{SNAPSHOTS}{_number(epoch)}/{_stem(operator, worker, attempt)}-{seq}.arrow"


def check_operator(operator: str) -> None:
    """Refuse an operator name that cannot be part of a file name.

    Raises:
        InvalidSettings: it has other characters than letters, digits, ``_`` and ``.``, or too many.
    """
    if not _OPERATOR.fullmatch(operator):
        raise InvalidSettings(
            f"the stateful operator's name {operator!r} cannot be part of a file name: "
            f"use 1 to {NAME_LENGTH_MAX} letters, digits, '_' and '.'"
        )


def term_of(attempt: str) -> Term:
    """The driver term an attempt id starts with."""
    found = _ATTEMPT.fullmatch(attempt)
    invariant(found, f"the attempt id {attempt!r} does not start with a term and a dot")
    assert found is not None
    return Term(int(found["term"]))


def _number(number: int) -> str:
    invariant(number >= 0, f"the log numbers its files from 0; got {number}")
    return f"{number:020d}"


def _stem(operator: str, worker: Worker, attempt: str) -> str:
    check_operator(operator)
    term_of(attempt)
    invariant(worker >= 0, f"worker {worker} is negative")
    return f"{operator}-{worker}-{attempt}"
