"""The user's conf of functions on frames and of processors, read when the query starts, before an epoch's session changes it."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

from binshift.operators.processor.evolution import ENCODING_CONF, THRESHOLD_CONF, Encoding, Rules
from binshift.spark.tasks.frame_parts import FrameConf


def rules_of(spark: SparkSession) -> Rules:
    """The user's, for a query without state; see `binshift.operators.processor.evolution`."""
    encoding = str(spark.conf.get(ENCODING_CONF)).lower()
    return Rules(Encoding(encoding), int(str(spark.conf.get(THRESHOLD_CONF))))


def frame_conf(spark: SparkSession) -> FrameConf:
    """How frames are made."""

    def flag(name: str) -> bool:
        return str(spark.conf.get(name)).lower() == "true"

    records = int(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 0)
    return FrameConf(
        timezone=str(spark.conf.get("spark.sql.session.timeZone")),
        records_max=records if records > 0 else (1 << 31) - 1,
        bytes_max=int(cast(Any, spark)._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch()),
        safe=flag("spark.sql.execution.pandas.convertToArrowArraySafely"),
        by_name=flag("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
        int_to_decimal=flag("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
        nullable_ints=flag("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype"),
    )
