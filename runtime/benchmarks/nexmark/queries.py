"""Q0 to Q22 by name: each a function of the three streams, the same on plain Spark and on binshift.

A name such as ``q5_lists`` is a second form of the same question. Differences to the original's SQL are in the docstrings of the modules
that define them.
"""

from __future__ import annotations

from nexmark import aggregates, joins, stateless, timed
from nexmark.query import merged

QUERIES = merged(stateless.queries, aggregates.queries, joins.queries, timed.queries)
