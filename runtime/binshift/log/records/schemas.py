"""The schemas of state variables, by which rows of all programs of a query are read.

``schemas/<number>.json`` has everything that is known, so the newest file counts, and those before it are history. A start whose
program changes a schema adds a file before it runs; as a row has the number of its schema, a file that no row needs does no harm.
"""

from __future__ import annotations

import msgspec

from binshift.errors import Fenced, LogDamaged
from binshift.log.records import envelope
from binshift.log.records.envelope import FORMAT_VERSION
from binshift.log.storage import layout
from binshift.log.storage.contract import Storage

SCHEMAS_BYTES_MAX = 16 * 1024 * 1024


class VariableSchemas(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A state variable; schemas are Arrow's, serialised by Arrow, as base64.

    Attributes:
        number: in the keys of its rows.
        name: the user's.
        kind: "value", "list" or "map".
        versions: the schemas of its values, in their order.
        user_key: the schema of a map's keys; empty for other kinds.
        expires: whether its rows have a time to live.
        deleted: whether a program has deleted it.
    """

    number: int
    name: str
    kind: str
    versions: tuple[str, ...]
    user_key: str = ""
    expires: bool = False
    deleted: bool = False


class OperatorSchemas(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The state of a processor.

    Attributes:
        name: of the operator.
        encoding: Spark's encoding, whose rules of evolution hold.
        keys: the grouping key's schema.
        variables: all that it has ever had.
    """

    name: str
    encoding: str
    keys: str
    variables: tuple[VariableSchemas, ...]


class SchemasFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All processors of a query.

    Attributes:
        number: of the file, from 1 on; 0: there is none yet.
        operators: those with variables.
    """

    format: int = FORMAT_VERSION
    number: int
    operators: tuple[OperatorSchemas, ...] = ()


_decoder = msgspec.json.Decoder(SchemasFile)
NO_SCHEMAS = SchemasFile(number=0)
"""Before the first file."""


def read_schemas(storage: Storage, number: int) -> SchemasFile:
    """One file.

    Raises:
        LogDamaged, ForeignLog: it cannot be read.
    """
    name = layout.schemas_name(number)
    return envelope.decode(name, storage.get(name), _decoder, SCHEMAS_BYTES_MAX)


def newest_schemas(storage: Storage) -> SchemasFile:
    """The newest file; `NO_SCHEMAS` if there is none.

    Raises:
        LogDamaged, ForeignLog: it cannot be read, or an older one is missing.
    """
    numbers = {file.number for each in storage.list(layout.SCHEMAS) if (file := layout.parse(each.name))}
    newest = max(numbers, default=0)
    if len(numbers) != newest:
        name = layout.schemas_name(min(set(range(1, newest)) - numbers))
        raise LogDamaged(f"{name} is missing: there are newer ones; {envelope.RESTORE}")
    return read_schemas(storage, newest) if newest else NO_SCHEMAS


def add_schemas(storage: Storage, wanted: SchemasFile) -> None:
    """Write the next file.

    Raises:
        Fenced: another driver has just done so.
        StorageUnavailable: it is not known whether it exists.
    """
    name = layout.schemas_name(wanted.number)
    data = envelope.encode(name, wanted, SCHEMAS_BYTES_MAX)
    if not storage.put_if_absent(name, data) and storage.get(name) != data:
        raise Fenced(f"another driver has just written {name} at {storage.url}; start the query again, and only once")
