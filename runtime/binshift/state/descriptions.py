"""The description of an operator's rows as the log has it: made when a query starts, read by tools."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import pyarrow as pa

from binshift.errors import ForeignLog
from binshift.log.records.formats import OperatorFormat, VariableFormat
from binshift.operators.stored import OPAQUE_ROWS, Form, StoredRows

PARTITION = pa.field("partition_id", pa.int32(), nullable=False)
CHANGE = (pa.field("batch_id", pa.int64(), nullable=False), pa.field("change_type", pa.string(), nullable=False))


def text_of_schema(schema: pa.Schema) -> str:
    """A schema, serialised by Arrow, as base64."""
    return base64.b64encode(schema.remove_metadata().serialize()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """The schema of `text_of_schema`.

    Raises:
        ForeignLog: it is none that this binshift can read.
    """
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    except (ValueError, binascii.Error, pa.ArrowInvalid) as error:
        raise ForeignLog(
            f"the log has a schema that this binshift cannot read ({error}): use the binshift that wrote it"
        ) from error


def to_format(rows: StoredRows) -> VariableFormat:
    """As a part of the log's format."""
    keys, values = map(text_of_schema, (rows.keys, rows.values))
    return VariableFormat(rows.name, rows.form.value, keys, values, rows.hidden, rows.delay_ms)


def to_formats(rows: Iterable[StoredRows]) -> tuple[VariableFormat, ...]:
    """`to_format` of each."""
    return tuple(map(to_format, rows))


def stored_rows(operator: OperatorFormat) -> tuple[StoredRows, ...]:
    """The kinds of rows of an operator; `OPAQUE_ROWS` alone if the log does not describe them.

    Raises:
        ForeignLog: a newer binshift wrote a form that this one does not know.
    """
    return tuple(map(_of_format, operator.state)) or (OPAQUE_ROWS,)


def _of_format(found: VariableFormat) -> StoredRows:
    try:
        form = Form(found.form)
    except ValueError as error:
        raise ForeignLog(
            f"the log describes its rows {found.name!r} in the form {found.form!r}, which this binshift cannot read "
            f"({error}): use the binshift that wrote it"
        ) from error
    keys, values = map(schema_of_text, (found.keys, found.values))
    return StoredRows(found.name, form, keys, values, found.hidden, found.delay_ms)


def schema_of(rows: StoredRows) -> pa.Schema:
    """The columns of rows of a kind."""
    return pa.schema([*rows.columns, PARTITION])
