"""The event time of rows, as Spark's analysis follows it through a program: the marked column, and when rows of it are over."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from binshift.spark.plan.catalyst import Catalyst, Expression, class_name

WATERMARK_KEY = "spark.watermarkDelayMs"
"""Column metadata with which Spark's analysis follows the event time through windows and projections: the watermark's delay."""


def marked(attributes: Sequence[Expression]) -> list[int]:
    """The positions of the attributes that carry an event time."""
    return [
        at
        for at, each in enumerate(attributes)
        if class_name(each) == "AttributeReference" and each.metadata().contains(WATERMARK_KEY)
    ]


def delay_ms(attribute: Expression) -> int:
    """The delay of the watermark of a marked attribute, in milliseconds."""
    return int(attribute.metadata().getLong(WATERMARK_KEY))


def expiry_ms(catalyst: Catalyst, name: str, type: DataType) -> Column:
    """When rows are over: the time, or the end of the window, of column ``name``, in milliseconds since 1970.

    It is rounded up, so that it is at or before a watermark if and only if Spark has it so.
    """
    return expiry_of(catalyst, catalyst.expression(F.col(name)), type)


def expiry_of(catalyst: Catalyst, time: Expression, type: DataType) -> Column:
    """`expiry_ms` of an expression."""
    if isinstance(type, StructType):
        type, time = type["end"].dataType, catalyst.expression(catalyst.column(time).getField("end"))
    micros = catalyst.micros(time, type)
    return F.call_function("div", micros + F.pmod(-micros, F.lit(1000)), F.lit(1000))
