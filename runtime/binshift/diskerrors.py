"""Which of the system's errors say that a disk is full, and which that a person has to give a right: the same for log and stores."""

from __future__ import annotations

import errno
from typing import Final

REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""The user may not do that there, or nobody may: trying again does not help."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, quota or room in a file is left: it passes once somebody makes room."""
