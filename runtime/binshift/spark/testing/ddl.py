"""Schemas given as DDL, without the JVM that Spark's own parser needs: columns with types, as in ``"n long, tags array<string>"``."""

from __future__ import annotations

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from binshift.errors import InvalidQuery

_NAMED: dict[str, type[DataType]] = {
    "bigint": LongType,
    "binary": BinaryType,
    "boolean": BooleanType,
    "byte": ByteType,
    "date": DateType,
    "double": DoubleType,
    "float": FloatType,
    "int": IntegerType,
    "integer": IntegerType,
    "long": LongType,
    "real": FloatType,
    "short": ShortType,
    "smallint": ShortType,
    "string": StringType,
    "timestamp": TimestampType,
    "timestamp_ltz": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "tinyint": ByteType,
}
_DECIMALS = ("dec", "decimal", "numeric")
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|(\w+)|([<>(),:]))")


def parse(text: str | StructType, single: str = "value") -> StructType:
    """The schema in a text; a single type becomes a column of the name ``single``.

    Raises:
        InvalidQuery: the text is no schema, or has a type that this parser does not know; give a `StructType` instead.

    >>> parse("n long, `a b` array<struct<x: int, y: decimal(5, 2)>> not null").simpleString()
    'struct<n:bigint,a b:array<struct<x:int,y:decimal(5,2)>>>'
    >>> parse("map<string, int>").simpleString()
    'struct<value:map<string,int>>'
    """
    if isinstance(text, StructType):
        return text
    try:
        return _Parser(text).columns()
    except InvalidQuery as wrong:
        try:
            return StructType([StructField(single, _Parser(text).only_type())])
        except InvalidQuery:
            raise wrong from None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            if found is None:
                raise self._wrong()
            self._tokens.append(found[0].strip())
            at = found.end()

    def columns(self) -> StructType:
        fields = self._fields()
        if self._tokens:
            raise self._wrong()
        return StructType(fields)

    def only_type(self) -> DataType:
        found = self._type()
        if self._tokens:
            raise self._wrong()
        return found

    def _fields(self) -> list[StructField]:
        fields = [self._field()]
        while self._taken(","):
            fields.append(self._field())
        return fields

    def _field(self) -> StructField:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not name.isidentifier():
            raise self._wrong()
        self._taken(":")
        type, nullable = self._type(), True
        if self._taken("not"):
            self._require("null")
            nullable = False
        if self._taken("comment"):
            self._next()
        return StructField(name, type, nullable)

    def _type(self) -> DataType:
        name = self._next().lower()
        if name in _NAMED:
            return _NAMED[name]()
        if name in _DECIMALS:
            numbers = self._numbers()
            return DecimalType(*numbers)
        self._require("<")
        match name:
            case "array":
                made: DataType = ArrayType(self._type())
            case "map":
                key = self._type()
                self._require(",")
                made = MapType(key, self._type())
            case "struct":
                made = StructType(self._fields())
            case _:
                raise self._wrong()
        self._require(">")
        return made

    def _numbers(self) -> list[int]:
        if not self._taken("("):
            return []
        found = [self._number()]
        if self._taken(","):
            found.append(self._number())
        self._require(")")
        return found

    def _number(self) -> int:
        text = self._next()
        if not text.isdecimal():
            raise self._wrong()
        return int(text)

    def _next(self) -> str:
        if not self._tokens:
            raise self._wrong()
        return self._tokens.pop(0)

    def _taken(self, wanted: str) -> bool:
        if self._tokens and self._tokens[0].lower() == wanted:
            self._tokens.pop(0)
            return True
        return False

    def _require(self, wanted: str) -> None:
        if not self._taken(wanted):
            raise self._wrong()

    def _wrong(self) -> InvalidQuery:
        return InvalidQuery(
            f"{self._text!r} is no schema that can be read without Spark; write 'name type, ...', or give a StructType"
        )
