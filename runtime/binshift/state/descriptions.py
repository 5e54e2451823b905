"""The description of an operator's rows as the log has it: made when a query starts, read by tools."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

import pyarrow as pa

from binshift.errors import ForeignLog
from binshift.log.records.formats import OperatorFormat, VariableFormat
from binshift.operators.stored import OPAQUE_ROWS, Form, StoredRows


def to_format(rows: StoredRows) -> VariableFormat:
    """As a part of the log's format."""
    keys, values = (base64.b64encode(schema.serialize()).decode() for schema in (rows.keys, rows.values))
    return VariableFormat(
        rows.name, rows.form.value, keys, values, rows.hidden, rows.delay_ms, rows.number, rows.expires
    )


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
        keys, values = (pa.ipc.read_schema(pa.py_buffer(base64.b64decode(x))) for x in (found.keys, found.values))
    except (ValueError, binascii.Error, pa.ArrowInvalid) as error:
        raise ForeignLog(
            f"the log describes its rows {found.name!r} in the form {found.form!r}, which this binshift cannot read "
            f"({error}): use the binshift that wrote it"
        ) from error
    return StoredRows(found.name, form, keys, values, found.hidden, found.delay_ms, found.number, found.expires)
