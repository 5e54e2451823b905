"""The state variables of processors as the log has them: their histories, and the rows that tools read."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from binshift.errors import LogDamaged
from binshift.log.records.schemas import OperatorSchemas, SchemasFile, VariableSchemas
from binshift.operators.processor import decoding
from binshift.operators.processor.evolution import Encoding, History
from binshift.operators.processor.variables import Kind
from binshift.operators.stored import StoredRows
from binshift.state.descriptions import schema_of_text, text_of_schema


def to_schemas(name: str, encoding: Encoding, keys: pa.Schema, histories: Iterable[History]) -> OperatorSchemas:
    """As a part of the log's file."""
    return OperatorSchemas(
        name=name,
        encoding=encoding.value,
        keys=text_of_schema(keys),
        variables=tuple(
            VariableSchemas(
                number=each.number,
                name=each.name,
                kind=each.kind.value,
                versions=tuple(map(text_of_schema, each.versions)),
                user_key="" if each.user_key is None else text_of_schema(each.user_key),
                expires=each.expires,
                deleted=each.deleted,
            )
            for each in histories
        ),
    )


def histories_of(found: OperatorSchemas) -> tuple[History, ...]:
    """The histories in a part of the log's file.

    Raises:
        LogDamaged: a variable has no schema.
        ForeignLog: a newer binshift wrote it.
    """
    if not all(each.versions for each in found.variables):
        raise LogDamaged(f"the log has a state variable of {found.name} without a schema")
    return tuple(
        History(
            each.number,
            each.name,
            Kind(each.kind),
            tuple(map(schema_of_text, each.versions)),
            schema_of_text(each.user_key) if each.user_key else None,
            each.expires,
            each.deleted,
        )
        for each in found.variables
    )


def variable_rows(schemas: SchemasFile, operator: str) -> tuple[StoredRows, ...]:
    """The variables of an operator, by name; empty if it is no processor. Errors as `histories_of`."""
    return tuple(
        decoding.variable_rows(each, schema_of_text(found.keys))
        for found in schemas.operators
        if found.name == operator
        for each in sorted(histories_of(found), key=lambda history: history.name)
        if not each.deleted
    )
