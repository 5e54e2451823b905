"""Rows that a processor's methods return, in the forms in which users make them."""

from __future__ import annotations

import pytest
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructType

from binshift.spark.tasks.processor_rows import RowOutput
from binshift.spark.tasks.user_rows import row_maker

SCHEMA = StructType().add("id", LongType()).add("name", StringType())
PAIR = Row("id", "name")


def taken(*rows: object) -> list[dict[str, object]]:
    """What is made of rows that a method returned."""
    output = RowOutput(SCHEMA)
    output.add(rows)
    return [row for batch in output.take() for row in batch.to_pylist()]


def test_all_forms_of_rows_are_taken() -> None:
    """By keywords, by a row of names, as given to the processor, in any mixture, and with columns in another order."""
    forms = [Row(id=1, name="a"), PAIR(1, "a"), row_maker(["id", "name"])((1, "a"))]
    for first in forms:
        assert taken(first, *forms) == [{"id": 1, "name": "a"}] * 4
    assert taken(Row(id=1, name="a"), Row(name="b", id=2)) == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_what_a_row_of_names_leaves_out_is_null() -> None:
    """Alone, and among rows that have all."""
    assert taken(PAIR(1)) == [{"id": 1, "name": None}]
    assert taken(PAIR(1, "a"), PAIR(2)) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


@pytest.mark.parametrize("nameless", [(1, "a"), Row("1", "a")], ids=["a tuple", "a row"])
def test_values_without_names_are_refused(nameless: object) -> None:
    """As the first row, and behind others: nothing is guessed from their order."""
    for rows in ((nameless,), (PAIR(1, "a"), nameless)):
        with pytest.raises((AttributeError, TypeError)):
            taken(*rows)
