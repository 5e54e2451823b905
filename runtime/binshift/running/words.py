"""What the executors of a run say, and what users' functions print there, where `binshift run` was typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from binshift.followed import Followed

WORKERS: Final = "worker-*"


class Words:
    """Takes up the words of all workers' executors, line by line.

    Args:
        cluster: its folder; what earlier runs have left there is not told.
        tell: is given the worker's name, as ``worker-1``, and a line.
    """

    def __init__(self, cluster: Path, tell: Callable[[str, str], None]) -> None:
        self._cluster, self._tell = cluster, tell
        self._followed = {folder.name: Followed(str(folder)) for folder in self._folders()}

    def pass_on(self) -> None:
        """Tell what has been said since the last time."""
        for folder in self._folders():
            if folder.name not in self._followed:
                self._followed[folder.name] = Followed(str(folder), fresh=True)
            for line in self._followed[folder.name].look().decode(errors="replace").splitlines():
                self._tell(folder.name, line)

    def _folders(self) -> list[Path]:
        return sorted(each for each in self._cluster.glob(WORKERS) if each.is_dir())
