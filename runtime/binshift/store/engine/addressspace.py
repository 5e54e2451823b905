"""Does a map of so many bytes fit into the address space this process may use?

This module owns that one question. LMDB maps its whole file, and under a limit on address space (RLIMIT_AS, which
Spark sets in Python workers from `spark.executor.pyspark.memory`) a map that does not fit fails to open with a bare
"cannot allocate memory". Asking first lets the message say which two settings contradict each other.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from binshift.errors import InvalidSettings


def check_fits(map_bytes: int) -> None:
    """Refuse a map that cannot be had.

    Raises:
        InvalidSettings: names both settings and what would fit.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and used_bytes() + map_bytes > limit:
        raise InvalidSettings(refusal(map_bytes, f"limit {limit} bytes, of which {used_bytes()} are used"))


def used_bytes() -> int:
    """Address space in use now; 0 where the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0


def refusal(map_bytes: int, why: str) -> str:
    """The message for a map that cannot be had."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    fits = max(0, limit - used_bytes()) // 2 if limit != resource.RLIM_INFINITY else map_bytes // 2
    return (
        f"a local store needs {map_bytes} bytes of address space, and this process cannot have them ({why}). Set "
        f"StoreLimits.map_bytes_max to at most {fits} (it bounds the state of one worker and operator), or raise or "
        "remove spark.executor.pyspark.memory"
    )
