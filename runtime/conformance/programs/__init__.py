"""All programs, one module a kind."""

from __future__ import annotations

from conformance.programs import (
    aggregation,
    chains,
    combined,
    dedup,
    functions,
    joins,
    keys,
    limits,
    outer_joins,
    pandas_clock,
    pandas_errors,
    pandas_state,
    pandas_timeouts,
    pandas_types,
    processor_chains,
    processor_times,
    processors,
    python_functions,
    sessions,
    sketches,
    sql,
    windows,
)

KINDS = (
    *(aggregation.case, functions.case, sketches.case, keys.case, windows.case, sessions.case, dedup.case, limits.case),
    *(joins.case, outer_joins.case, combined.case, chains.case, sql.case, python_functions.case),
    *(pandas_state.case, pandas_types.case, pandas_timeouts.case, pandas_clock.case, pandas_errors.case),
    *(processors.case, processor_times.case, processor_chains.case),
)
PROGRAMS = tuple(program for kind in KINDS for program in kind.programs)
