"""What a program observes (`DataFrame.observe`) behind its first stateful operator.

Spark reports what is observed in its own plan of a batch, which ends before that operator. Behind it, a frame that is run has the
metrics of its own run, so the frame must run as it is, once: the sink gets its rows, not its plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from binshift.spark.plan.catalyst import sequence


def metrics_of(frames: Iterable[DataFrame]) -> Mapping[str, Mapping[str, object]]:
    """The metrics of frames that have run: by name, the values by column, as in the JSON of Spark's progress reports."""
    found = [each for frame in frames for each in sequence(frame._jdf.queryExecution().observedMetrics().toSeq())]
    return {str(each._1()): json.loads(each._2().json()) for each in found}
