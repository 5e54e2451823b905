"""Named places in the code at which a test may hold a process, to hurt it or another one at exactly that moment.

A process is open to this only if its own environment named a folder when it started (`VARIABLE`, read once); else a place
costs a comparison, and nothing can switch it on. In the folder, files say everything:

```
NAME              armed: the next process that comes by takes it, and only one does
NAME.PID.held     that process is there now, and waits
NAME.PID.go       it may go on
```

It must never decide anything, and do no more than wait: all violence is the test's. A process that nobody lets go goes
on by itself after `HELD_SECONDS_MAX`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

VARIABLE: Final = "BINSHIFT_FAILPOINTS"
"""Environment: the folder; without it, nothing here does anything."""
HELD_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.005

_folder: Final = os.environ.get(VARIABLE)


def reached(name: str) -> None:
    """This process is at the place ``name``."""
    if _folder is not None:
        hold(Path(_folder), name)


def hold(folder: Path, name: str) -> None:
    """Wait at ``name``, if it is armed."""
    held = folder / f"{name}.{os.getpid()}.held"
    try:
        (folder / name).rename(held)
    except FileNotFoundError:
        return
    until = time.monotonic() + HELD_SECONDS_MAX
    while not held.with_suffix(".go").exists() and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
