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
    odd,
    outer_joins,
    pair_conditions,
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
    types,
    watermarks,
    windows,
)

KINDS = (
    *(pandas_state.case, pandas_types.case, pandas_timeouts.case, pandas_clock.case, pandas_errors.case),
    *(processors.case, processor_times.case, processor_chains.case),
    *(aggregation.case, functions.case, sketches.case, keys.case, types.case, windows.case, sessions.case, dedup.case),
    *(limits.case, joins.case, outer_joins.case, pair_conditions.case, combined.case, chains.case, watermarks.case),
    *(sql.case, python_functions.case, odd.case),
)
PROGRAMS = tuple(program for kind in KINDS for program in kind.programs)
