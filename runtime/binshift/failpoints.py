"""Named points in the code at which a test can hold a process, to kill or disturb it or another one at exactly that moment.

Failpoints are active only in a process whose environment named a folder when it started (`VARIABLE`, read once). Otherwise a
point costs one comparison, and nothing can activate it. Files in the folder control everything:

```
NAME              armed: held by the next process that reaches it, and only by that one
NAME.PID.held     that process is held now
NAME.PID.go       it may continue
```

It must never decide anything and only waits: the test does all damage. A process that is not released continues by
itself after `HELD_SECONDS_MAX`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

VARIABLE: Final = "BINSHIFT_FAILPOINTS"
"""Environment variable: the folder; if it is not set, failpoints are off."""
HELD_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.005

_folder: Final = os.environ.get(VARIABLE)


def reached(name: str) -> None:
    """This process has reached the point ``name``."""
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
