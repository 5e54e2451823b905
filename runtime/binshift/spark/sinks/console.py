"""The console: the first rows of each epoch on the driver's standard output, as in Spark's console sink.

For inspection, not for storage. It stops after a few rows, so the result is materialised before.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame

from binshift.errors import InvalidQuery
from binshift.spark.sinks.contract import Guarantee

ROWS_SHOWN = 20


class ConsoleSink:
    """Prints each epoch.

    Args:
        options: ``numRows`` (20) and ``truncate`` (true), as in Spark.

    Raises:
        InvalidQuery: an option is not a number or truth value.
    """

    name = "console"
    guarantee = Guarantee.AT_LEAST_ONCE
    drains = True

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        given = {key.lower(): value for key, value in (options or {}).items()}
        rows, truncate = given.get("numrows", str(ROWS_SHOWN)), given.get("truncate", "true").lower()
        if not rows.isdigit():
            raise InvalidQuery(f"option('numRows', {rows!r}) of the console must be a number of rows")
        if truncate not in ("true", "false"):
            raise InvalidQuery(f"option('truncate', {truncate!r}) of the console must be true or false")
        self._rows, self._truncate = int(rows), truncate == "true"

    def write(self, result: DataFrame, epoch: int) -> None:
        """Print the epoch's first rows."""
        rule = "-" * 43
        sys.stdout.write(f"{rule}\nBatch: {epoch}\n{rule}\n")
        result.show(self._rows, self._truncate)

    def close(self) -> None:
        """Nothing to release."""
