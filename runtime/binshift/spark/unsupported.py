"""The parts of PySpark's interface that a stateful query does not support, by name, with the alternative.

Every public name of `pyspark.sql.DataFrame` and `GroupedData` is either a method of this package or in one of these tables;
a test checks this. A name in a table raises on access, so that errors are early and clear.
"""

from __future__ import annotations

from collections.abc import Mapping

from binshift.errors import Unsupported

_ACTION = "it is an action and a stream never ends; start a query with .writeStream, for example .format('console')"
_PLAIN = "call it on the DataFrame before binshift.stateful(), or on each epoch's result with writeStream.foreachBatch"
_BATCH = "it needs all rows at once; call it on each epoch's result with writeStream.foreachBatch"
_NOT_YET_DEDUPLICATE = "not yet; until then keep the first row of a key with groupBy(...).applyInArrowWithState"
_GROUPS = "not yet; group by columns with groupBy(...), and union the groupings in a foreachBatch sink"
_ORDER = "a stream has no order; sort each epoch's result with writeStream.foreachBatch"
_SET = "it compares with all rows; join with a static DataFrame, for example how='left_anti'"

FRAME: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("approxQuantile", "collect", "corr", "count", "cov", "crosstab", "describe", "first", "foreach"),
            *("foreachPartition", "freqItems", "head", "isEmpty", "show", "stat", "summary", "tail", "take", "toArrow"),
            *("toLocalIterator", "toPandas", "pandas_api", "plot", "__arrow_c_stream__"),
        ),
        _ACTION,
    ),
    **dict.fromkeys(
        (
            *(
                "cache",
                "checkpoint",
                "createGlobalTempView",
                "createOrReplaceGlobalTempView",
                "createOrReplaceTempView",
            ),
            *("createTempView", "localCheckpoint", "persist", "registerTempTable", "storageLevel", "unpersist"),
            *("inputFiles", "isLocal", "lateralJoin", "metadataColumn", "sameSemantics", "semanticHash"),
            *("executionInfo", "observe", "zipWithIndex"),
        ),
        _PLAIN,
    ),
    **dict.fromkeys(("nearestByJoin", "randomSplit", "sampleBy", "transpose", "zip"), _BATCH),
    **dict.fromkeys(("asTable", "exists", "scalar"), "a stream cannot be a subquery; join with a static DataFrame"),
    **dict.fromkeys(("distinct", "dropDuplicates", "drop_duplicates"), _NOT_YET_DEDUPLICATE),
    **dict.fromkeys(("dropDuplicatesWithinWatermark",), _NOT_YET_DEDUPLICATE),
    **dict.fromkeys(("exceptAll", "intersect", "intersectAll", "subtract"), _SET),
    **dict.fromkeys(("cube", "groupingSets", "rollup"), _GROUPS),
    **dict.fromkeys(("limit", "offset", "orderBy", "sort", "sortWithinPartitions"), _ORDER),
    **dict.fromkeys(("mergeInto", "write", "writeTo"), "a stream is written with .writeStream"),
    "explain": "binshift's plan is made when the query starts: query.explain()",
    "rdd": "a stream is not an RDD; use mapInArrow or mapInPandas",
    "repartitionById": "binshift itself assigns rows to workers; use repartition(n)",
    "repartitionByRange": "it would read every row twice to find the ranges; use repartition(n, *columns)",
    "sample": "it would choose other rows when an epoch runs again; filter on a hash: F.pmod(F.xxhash64('k'), F.lit(100)) < 5",
    "toJSON": "use select(F.to_json(F.struct('*')).alias('value'))",
}
"""Names of `pyspark.sql.DataFrame`."""

_PER_GROUP = "it is for batches; use applyInArrowWithState, which gets all rows of the touched keys as Arrow tables"
_PER_KEY = "not yet; use applyInArrowWithState, which gets the rows and states of all touched keys in one call"

GROUPED: Mapping[str, str] = {
    **dict.fromkeys(("apply", "applyInArrow", "applyInPandas"), _PER_GROUP),
    **dict.fromkeys(("applyInPandasWithState", "transformWithState", "transformWithStateInPandas"), _PER_KEY),
    "cogroup": "not yet; union the two streams with a column that distinguishes them, then applyInArrowWithState",
    "pivot": "a stream's values are not known in advance; name them: agg(F.sum(F.when(F.col('k') == 'a', F.col('v'))))",
}
"""Names of `pyspark.sql.GroupedData`."""


def unsupported(owner: str, name: str, instead: str) -> Unsupported:
    """The error for an unsupported name.

    >>> str(unsupported("StatefulFrame", "rdd", "use mapInArrow"))
    'StatefulFrame.rdd is not supported: use mapInArrow'
    """
    return Unsupported(f"{owner}.{name} is not supported: {instead}")
