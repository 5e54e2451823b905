"""PySpark's own tests of its tester of processors, which its wheel contains, with `binshift.testing.TwsTester` in its place.

    python -m conformance.tester_tests

Needs no Spark. The tests that compare the tester with a query are left out. Exit status: 0 if all pass, else 1.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, cast

import pyspark.sql.streaming
from pyspark.testing.sqlutils import ReusedSQLTestCase

from binshift.testing import TwsTester
from conformance.pyspark_tests import unpack

SUITE = "pyspark.sql.tests.pandas.streaming.test_tws_tester"


def without_spark() -> None:
    """Let the tests run without the session that their class creates."""
    base: Any = ReusedSQLTestCase
    base.setUpClass = base.tearDownClass = classmethod(lambda case: None)
    base.setUp = base.tearDown = lambda case: None


def main() -> int:
    """Run the suite; returns the exit status."""
    with tempfile.TemporaryDirectory(prefix="tester-tests-") as folder:
        unpack(Path(folder))
        without_spark()
        cast(Any, pyspark.sql.streaming).TwsTester = TwsTester
        suite = importlib.import_module(SUITE)
        result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(suite.TwsTesterTests))
    return int(not result.wasSuccessful() or not result.testsRun)


if __name__ == "__main__":
    sys.exit(main())
