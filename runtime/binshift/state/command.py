"""`binshift state`: the state of a query for people and scripts, read from its checkpoint, offline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binshift.errors import InvalidQuery
from binshift.log.records.formats import OperatorFormat
from binshift.log.tools.inspect import add_storage_options
from binshift.model import BinSet, Epoch
from binshift.operators.stored import Form, StoredRows
from binshift.state.reader import StateLog

LIMIT: Final = 20
"""Rows of a kind that are shown as text by default."""

CELL_LETTERS_MAX: Final = 60

ROWS_CONVERTED: Final = 1000
"""Rows that are converted to values of Python together."""

EPILOG = """examples:
  binshift state /data/clicks                       the first rows of each operator
  binshift state /data/clicks --operator 1 --limit 0
  binshift state /data/clicks --epoch 41            an older state, as long as the log has it
  binshift state /data/clicks --changes 40 42       what epochs 40 to 42 changed
  binshift state /data/clicks --output json         one object per line, for jq
  binshift state /data/clicks --operator 0 --output parquet --to clicks.parquet

The query may be running. In Spark: spark.read.format("binshift-state").load("/data/clicks").
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 0.

    Raises:
        BinshiftError: there is no such state, or it cannot be read.
    """
    given = _parser().parse_args(arguments)
    log = StateLog.open(given.path, dict(given.option))
    chosen = list(_chosen(log, given.operator, given.name))
    if given.output == "parquet":
        if given.to is None or len(chosen) != 1:
            raise InvalidQuery(
                f"--output parquet writes rows of one kind into the file --to; choose with --operator and --name one of "
                f"{', '.join(f'{operator.name} {rows.name}' for operator, rows in chosen)}"
            )
        _write_parquet(given.to, *_read(log, *chosen[0], given))
        return 0
    for operator, rows in chosen:
        schema, batches = _read(log, operator, rows, given)
        if given.output == "json":
            _print_json(operator, rows, batches, given.limit)
        else:
            _print_text(operator, rows, schema, batches, LIMIT if given.limit is None else given.limit)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "binshift state",
        description="Show the state of a query: the rows that its operators keep, by key.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", help="the checkpointLocation: a path, file:// or s3://")
    parser.add_argument("--operator", type=int, metavar="N", help="only this operator (default: all)")
    parser.add_argument("--name", help="only these rows: a side of a join (left, right), or a variable")
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--epoch", type=int, metavar="N", help="the state after this epoch (default: the newest)")
    when.add_argument("--changes", type=int, nargs=2, metavar=("FIRST", "LAST"), help="the changes of these epochs")
    parser.add_argument("--limit", type=int, metavar="N", help=f"rows to show, 0 for all (text: {LIMIT}, json: all)")
    parser.add_argument("--output", choices=("text", "json", "parquet"), default="text")
    parser.add_argument("--to", type=Path, metavar="FILE", help="the file for parquet")
    add_storage_options(parser)
    return parser


def _chosen(log: StateLog, number: int | None, name: str | None) -> Iterator[tuple[OperatorFormat, StoredRows]]:
    for operator in log.format.operators if number is None else (log.operator(number),):
        if name is not None:
            yield operator, log.rows_of(operator, name)
            continue
        for rows in log.kinds(operator):
            yield operator, rows


def _read(
    log: StateLog, operator: OperatorFormat, rows: StoredRows, given: argparse.Namespace
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if given.changes is not None:
        changes = log.changes(operator, rows, *map(Epoch, given.changes))
        return changes.schema, changes.read(log.storage)
    state = log.at(operator, rows, None if given.epoch is None else Epoch(given.epoch))
    bins = BinSet(np.arange(log.format.bins, dtype=np.int32))
    return state.schema, state.read(log.storage, bins)


def _write_parquet(file: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """Parquet has no structs without columns, so those become nulls."""
    columns = [pa.field(each.name, pa.null()) if each.type == pa.struct([]) else each for each in schema]
    with pq.ParquetWriter(file, pa.schema(columns)) as writer:
        for batch in batches:
            arrays = [pa.nulls(len(a)) if a.type == pa.struct([]) else a for a in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns)))


def _print_json(
    operator: OperatorFormat, rows: StoredRows, batches: Iterator[pa.RecordBatch], limit: int | None
) -> None:
    for row in _rows(batches, limit or 0):
        line = {"operator": operator.name, "name": rows.name, **row}
        sys.stdout.write(msgspec.json.encode(_plain(line)).decode() + "\n")


def _print_text(
    operator: OperatorFormat, rows: StoredRows, schema: pa.Schema, batches: Iterator[pa.RecordBatch], limit: int
) -> None:
    named = [column for column in schema.names if column not in rows.columns.names]
    structs = [(each.name, _fields(each.type)) for each in rows.columns]
    header = [*named, *(f"{name}.{field}" if field else name for name, fields in structs for field in fields)]
    lines = [
        [*(row[name] for name in named), *(cell for name, fields in structs for cell in _cells(row[name], fields))]
        for row in _rows(batches, limit + 1 if limit else 0)
    ]
    out = [f"operator {operator.name}, {rows.name} rows"]
    if rows.form is Form.OPAQUE:
        out.append(
            "the log has no schemas: an earlier binshift wrote it, or its operator describes none; keys and values are bytes"
        )
    cut = lines[:limit] if limit else lines
    out += _table(header, [[_text(each) for each in line] for line in cut])
    more = len(lines) > len(cut)
    out.append(f"the first {limit} rows; --limit 0 shows all" if more else f"{len(cut)} rows" if cut else "no rows")
    sys.stdout.write("\n".join(out) + "\n\n")


def _rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[dict[str, Any]]:
    """The rows as values, at most so many; 0: all. A part of a batch is converted at a time."""
    left = limit or sys.maxsize
    for batch in batches:
        some = batch.slice(0, left)
        for at in range(0, some.num_rows, ROWS_CONVERTED):
            yield from _values(some.slice(at, ROWS_CONVERTED))
        left -= some.num_rows
        if not left:
            return


def _values(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Strings of Spark need not be UTF-8: such a batch has its strings as bytes."""
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        columns = [each.cast(_with_bytes(each.type)) for each in batch.columns]
        yield from pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist()


def _with_bytes(type: pa.DataType) -> pa.DataType:
    if pa.types.is_string(type):
        return pa.binary()
    if pa.types.is_struct(type):
        return pa.struct([pa.field(each.name, _with_bytes(each.type)) for each in type])
    return pa.list_(_with_bytes(type.value_type)) if pa.types.is_list(type) else type


def _fields(type: pa.DataType) -> list[str]:
    """The columns of a struct; of another type an empty name, for the value itself."""
    return [each.name for each in type] if pa.types.is_struct(type) else [""]


def _cells(value: Any, names: Sequence[str]) -> list[Any]:
    return [value if not name or value is None else value[name] for name in names]


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *lines)
    ]


def _text(value: Any) -> str:
    """A value in a cell, cut if it is long.

    >>> _text(None), _text({"start": 1, "end": 2}), _text(b"ab")
    ('null', '{start: 1, end: 2}', '0x6162')
    """
    match value:
        case None:
            found = "null"
        case dict():
            found = "{" + ", ".join(f"{name}: {_text(each)}" for name, each in value.items()) + "}"
        case list():
            found = "[" + ", ".join(map(_text, value)) + "]"
        case bytes():
            found = "0x" + value.hex()
        case _:
            found = str(value)
    return found if len(found) <= CELL_LETTERS_MAX else found[: CELL_LETTERS_MAX - 3] + "..."


def _plain(value: Any) -> Any:
    """A value that JSON has: bytes become hexadecimal, times and decimals text."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | timedelta():
            return str(value)
        case _:
            return value


if __name__ == "__main__":
    sys.exit(main())
