"""Runs the benchmarks: all of them, or those named (``make bench BENCH="move calm"``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Each benchmark in a process of its own; the exit status is that of the first that failed."""
    wanted = os.environ.get("BENCH", "").split() or sorted(p.stem[6:] for p in HERE.glob("bench_*.py"))
    for name in wanted:
        script = HERE / f"bench_{name}.py"
        if not script.exists():
            known = ", ".join(sorted(p.stem[6:] for p in HERE.glob("bench_*.py")))
            print(f"there is no benchmark {name!r}; there are {known}", file=sys.stderr)
            return 2
        print(f"--- {name}")
        status = subprocess.run([sys.executable, str(script), *sys.argv[1:]], check=False).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
