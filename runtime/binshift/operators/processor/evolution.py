"""What a program may change of its processor's state while state exists: Spark's rules, with Spark's error conditions.

A `History` is everything that a variable has been; the log keeps the histories of each processor and only ever adds to them. `evolve`
compares them with what a program wants: it returns what they become, or refuses. Which changes are possible depends on the
encoding (``spark.sql.streaming.stateStore.encodingFormat``), which is the first program's, as in Spark's checkpoints.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import pyarrow as pa

from binshift.errors import IncompatibleState
from binshift.operators.processor.variables import Kind, Variable, inner_schema
from binshift.operators.processor.versions import is_schema_readable

THRESHOLD_CONF = "spark.sql.streaming.stateStore.valueStateSchemaEvolutionThreshold"
ENCODING_CONF = "spark.sql.streaming.stateStore.encodingFormat"

NUMBERS_MAX = 1 << 16


class Encoding(enum.Enum):
    """How Spark would encode state, which decides what can change; binshift's bytes are the same. The values are Spark's."""

    UNSAFE_ROW = "unsaferow"
    AVRO = "avro"


@dataclass(frozen=True)
class Wanted:
    """A variable that a program defines.

    Attributes:
        name: the user's.
        kind: what it holds.
        schema: of a value, an element or a map's value, with Spark's types.
        user_key: of a map's keys; else None.
        ttl_ms: the time to live, milliseconds; None: it does not end.
    """

    name: str
    kind: Kind
    schema: pa.Schema
    user_key: pa.Schema | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True)
class History:
    """A variable over all programs of a query.

    Attributes:
        number: see `Variable`; no other variable ever gets it.
        name: the user's.
        kind: what it holds.
        versions: the schemas, the newest last.
        user_key: of a map's keys; else None.
        expires: whether it has a time to live.
        deleted: a program has deleted it with its state (``deleteIfExists``).
    """

    number: int
    name: str
    kind: Kind
    versions: tuple[pa.Schema, ...]
    user_key: pa.Schema | None = None
    expires: bool = False
    deleted: bool = False

    def variable(self, ttl_ms: int | None) -> Variable:
        """For the operator."""
        *older, schema = map(inner_schema, self.versions)
        user_key = None if self.user_key is None else inner_schema(self.user_key)
        return Variable(self.number, self.name, self.kind, schema, user_key, ttl_ms, tuple(older))


@dataclass(frozen=True)
class Rules:
    """What decides about changes.

    Attributes:
        encoding: see the module.
        evolutions_max: how often the schema of one variable can change.
    """

    encoding: Encoding = Encoding.UNSAFE_ROW
    evolutions_max: int = 16


def evolve(
    known: Sequence[History], wanted: Sequence[Wanted], deleted: Collection[str], rules: Rules
) -> tuple[History, ...]:
    """The histories with a program that is about to run.

    A variable that the program lacks keeps its state, unless it is deleted: it is there again if a later program defines it.

    Args:
        known: so far, by number.
        wanted: the program's variables.
        deleted: names that the program deletes and does not define again.
        rules: what decides.

    Raises:
        IncompatibleState: the program cannot continue with the state; the message begins with Spark's condition.
    """
    kept = [replace(each, deleted=each.deleted or each.name in deleted) for each in known]
    by_name = {each.name: each for each in kept if not each.deleted}
    made = [each for each in sorted(wanted, key=lambda each: each.name) if each.name not in by_name]
    changed = {each.name: _evolved(by_name[each.name], each, rules) for each in wanted if each.name in by_name}
    if len(known) + len(made) > NUMBERS_MAX:
        raise IncompatibleState(
            f"the query has had {len(known) + len(made)} state variables; {NUMBERS_MAX} are possible"
        )
    for each in made:
        _check_nullable(each, rules)
    new = [
        History(number, each.name, each.kind, (each.schema,), each.user_key, each.ttl_ms is not None)
        for number, each in enumerate(made, len(known))
    ]
    return (*(each if each.deleted else changed.get(each.name, each) for each in kept), *new)


def variables_of(histories: Sequence[History], wanted: Sequence[Wanted]) -> tuple[Variable, ...]:
    """The program's variables, by number."""
    ttl_ms = {each.name: each.ttl_ms for each in wanted}
    return tuple(each.variable(ttl_ms[each.name]) for each in histories if each.name in ttl_ms and not each.deleted)


def check_keys(was: pa.Schema, now: pa.Schema) -> None:
    """Refuse other grouping keys, or user keys of a map; their names are not compared, as in Spark.

    Raises:
        IncompatibleState: the types differ.
    """
    if not _same_types(was, now):
        raise IncompatibleState(
            "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema. Please check "
            f"number and type of fields. Existing key_schema={_shown(was)} and new key_schema={_shown(now)}. {REMEDY}"
        )


REMEDY = "Undo the change of the program, or start with another checkpoint"


def _evolved(history: History, wanted: Wanted, rules: Rules) -> History:
    if wanted.kind is not history.kind:
        new, old = (f"{each.value.capitalize()}State" for each in (wanted.kind, history.kind))
        raise IncompatibleState(
            f"[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE] Cannot change {wanted.name} to {new} between query restarts. Please set "
            f"{wanted.name} to {old}, or restart with a new checkpoint directory."
        )
    if history.user_key is not None and wanted.user_key is not None:
        check_keys(history.user_key, wanted.user_key)
    if history.expires != (wanted.ttl_ms is not None):
        raise _not_possible(history, wanted, rules)
    _check_nullable(wanted, rules)
    newest = history.versions[-1]
    if _same_but_metadata(newest, wanted.schema):
        return history
    if rules.encoding is Encoding.UNSAFE_ROW:
        if not _same_types(newest, wanted.schema):
            raise _not_possible(history, wanted, rules)
        return replace(
            history, versions=(*history.versions[:-1], wanted.schema)
        )  # names only: old rows get the new ones
    if not all(is_schema_readable(inner_schema(each), inner_schema(wanted.schema)) for each in history.versions):
        raise _not_possible(history, wanted, rules)
    if len(history.versions) > rules.evolutions_max:
        raise IncompatibleState(
            f"[STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED] The number of state schema evolutions "
            f"{len(history.versions)} exceeds the maximum number of state schema evolutions, {rules.evolutions_max}, allowed for "
            f"this column family. Offending column family: {wanted.name} Please set '{THRESHOLD_CONF}' to a higher number, or "
            "revert state schema modifications"
        )
    return replace(history, versions=(*history.versions, wanted.schema))


def _check_nullable(wanted: Wanted, rules: Rules) -> None:
    if rules.encoding is Encoding.AVRO and not all(map(_is_nullable, wanted.schema)):
        raise IncompatibleState(
            "[TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE] If Avro encoding is enabled, all the fields in the schema for column "
            f"family {wanted.name} must be nullable when using the TransformWithState operator. Please make the schema nullable. "
            f"Current schema: {_shown(wanted.schema)}"
        )


def _is_nullable(field: pa.Field) -> bool:
    return field.nullable and (not pa.types.is_struct(field.type) or all(map(_is_nullable, field.type)))


def _not_possible(history: History, wanted: Wanted, rules: Rules) -> IncompatibleState:
    old, new = (
        f"{_shown(schema)}{' with a time to live' if ends else ''}"
        for schema, ends in ((history.versions[-1], history.expires), (wanted.schema, wanted.ttl_ms is not None))
    )
    if rules.encoding is Encoding.AVRO:
        return IncompatibleState(
            f"[STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION] Schema evolution is not possible new value_schema={new} and old "
            f"value_schema={old} of {wanted.name}. Please check "
            f"https://avro.apache.org/docs/1.11.1/specification/_print/#schema-resolution for valid schema evolution. {REMEDY}"
        )
    return IncompatibleState(
        "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] Provided value schema does not match existing state value schema. Please check "
        f"number and type of fields. Existing value_schema={old} and new value_schema={new} of {wanted.name}. {REMEDY}; a query "
        f"that starts with {ENCODING_CONF}=avro can change its schemas"
    )


def _same_types(was: pa.Schema, now: pa.Schema) -> bool:
    """Whether the columns have the same types in the same order, whatever their names; what had no nulls must have none."""
    return _same_fields(list(was), list(now))


def _same_fields(was: Sequence[pa.Field], now: Sequence[pa.Field]) -> bool:
    pairs = zip_longest(was, now)
    return all(
        a is not None and b is not None and (a.nullable or not b.nullable) and _same_type(a.type, b.type)
        for a, b in pairs
    )


def _same_type(was: pa.DataType, now: pa.DataType) -> bool:
    if was.id != now.id or not pa.types.is_nested(was):
        return bool(was == now)
    return _same_fields(
        [was.field(at) for at in range(was.num_fields)], [now.field(at) for at in range(now.num_fields)]
    )


def _same_but_metadata(was: pa.Schema, now: pa.Schema) -> bool:
    return bool(was.equals(now, check_metadata=False))


def _shown(schema: pa.Schema) -> str:
    return (
        "(" + ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema) + ")"
    )
