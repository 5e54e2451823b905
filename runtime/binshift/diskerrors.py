"""System errors that mean a full disk, and errors that mean a missing permission: the same for the log and the stores."""

from __future__ import annotations

import errno
from typing import Final

REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""The user has no permission, or the file system is read-only: a retry does not help."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No space, quota or room in a file is left: a retry succeeds once space is freed."""
