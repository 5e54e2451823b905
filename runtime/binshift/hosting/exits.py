"""How a command ends: its exit status, and one line on stderr instead of a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from binshift.errors import BinshiftError

INTERRUPTED: Final = 130


def exit_status(program: str, act: Callable[[], int]) -> int:
    """What ``act`` returns; or the status of a binshift error or an interrupt, after a line on stderr."""
    try:
        return act()
    except BinshiftError as error:
        print(f"{program}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
