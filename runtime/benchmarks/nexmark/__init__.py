"""NEXMark for PySpark: a generator made of Catalyst expressions, the queries Q0 to Q22, and DuckDB as their oracle.

`events`, `queries` and `oracle` know no binshift: the same functions run on plain Spark. ``python -m nexmark --help`` describes the runs.
"""
