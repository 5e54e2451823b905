"""Runs the benchmarks: all of them, one after the other, or the named ones.

    make bench                                   everything; most of an hour
    make bench BENCH="move calm"                 these two
    make bench BENCH=move ARGS="--keys 1000000"  with its own options; ARGS=--help lists them

Each runs in a separate process. Afterwards `python runtime/benchmarks/page.py` writes the results into docs/benchmarks.md.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run them; the exit status is that of the first that failed."""
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    wanted = os.environ.get("BENCH", "").split() or known
    if unknown := [name for name in wanted if name not in known]:
        print(f"there is no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    arguments = [*shlex.split(os.environ.get("ARGS", "")), *sys.argv[1:]]
    for name in wanted:
        print(f"--- {name}", flush=True)
        status = subprocess.run([sys.executable, str(HERE / f"bench_{name}.py"), *arguments], check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
