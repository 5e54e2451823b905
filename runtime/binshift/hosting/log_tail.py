"""Executors' output: kept in files of a bounded size, and copied to the visible log. ``python -I -S log_tail.py WORK``

Spark's worker writes an executor's output, including that of the user's functions, to ``WORK/APPLICATION/EXECUTOR/stderr`` and
``stdout``, which neither ``kubectl logs`` nor a terminal shows. `LogFollower` returns whole lines from there. In a pod, a
process of this module alone copies them to its own output, the container's log; it ends with the process that started it, which
becomes Spark's worker. It imports small modules only: one runs next to every executor, in 4 MiB of its own.
"""

import contextlib
import os
import sys
import time
from typing import Final

CONF: Final = {
    # Of the driver; executors have theirs from a file (`binshift.hosting.local.quiet`, `binshift.hosting.pod.conf`), and log
    # six lines at INFO
    # for every task of an epoch.
    "spark.log.level": "WARN",
    # What a program sets later, by SparkContext.setLogLevel, reaches the executors as well.
    "spark.executor.syncLogLevel.enabled": "true",
    "spark.executor.logs.rolling.strategy": "size",
    "spark.executor.logs.rolling.maxSize": str(16 << 20),
    "spark.executor.logs.rolling.maxRetainedFiles": "2",
}
"""Spark conf with which such files are worth reading, and do not fill a disk."""
POLL_SECONDS: Final = 0.5
READ_BYTES: Final = 1 << 16
LINE_BYTES_MAX: Final = 1 << 16
"""A longer line comes in pieces."""
NAMES: Final = ("stderr", "stdout")
EXECUTORS_MAX: Final = 4
"""Of one application; Spark's worker runs one of them, numbers them upwards, and keeps what all of them have left."""
STANDARD_OUTPUT: Final = 1


class Tail:
    """One file, followed by its name: Spark renames a file that has become too large and begins another one.

    Args:
        path: of the file.
        at_end: leave out what it has already.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str, *, at_end: bool = False) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDONLY)
        self._begun = b""
        if at_end:
            os.lseek(self._file, 0, os.SEEK_END)

    def lines(self) -> bytes:
        """Whole lines written since the last call; Spark may continue a line in the next file.

        A file that is renamed twice between two calls is lost in between: files are of megabytes.
        """
        found = self._rest()
        if self._renamed():
            # Once more: it may have been written to between the last read and its new name.
            found += self._rest()
            try:
                following = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                return found
            os.close(self._file)
            self._file = following
            found += self._rest()
        return found

    def close(self) -> bytes:
        """Follow it no more; gives what there was of a last line."""
        os.close(self._file)
        return self._ended()

    @property
    def gone(self) -> bool:
        """Whether the file was deleted: its executor ended long ago."""
        return os.fstat(self._file).st_nlink == 0

    def _renamed(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _rest(self) -> bytes:
        parts = [self._begun]
        while part := os.read(self._file, READ_BYTES):
            parts.append(part)
        whole, end, self._begun = b"".join(parts).rpartition(b"\n")
        if len(self._begun) > LINE_BYTES_MAX:
            return whole + end + self._ended()
        return whole + end

    def _ended(self) -> bytes:
        begun, self._begun = self._begun, b""
        return begun + b"\n" if begun else b""


class LogFollower:
    """All files below a folder.

    Args:
        folder: Spark's work folder, which need not exist yet.
        fresh: whether none of it has been forwarded; otherwise the process before this one has forwarded it.
    """

    def __init__(self, folder: str, *, fresh: bool = False) -> None:
        self._folder = folder
        self._tails = {} if fresh else {path: Tail(path, at_end=True) for path in self._paths()}

    def read(self) -> bytes:
        """Output since the last call."""
        paths = self._paths()
        for path in paths:
            if path not in self._tails:
                with contextlib.suppress(FileNotFoundError):
                    self._tails[path] = Tail(path)
        output = [tail.lines() for tail in self._tails.values()]
        kept = set(paths)
        gone = [path for path, tail in self._tails.items() if tail.gone or path not in kept]
        output += [self._tails.pop(path).close() for path in gone]
        return b"".join(output)

    def close(self) -> None:
        """Follow them no more."""
        for tail in self._tails.values():
            tail.close()

    def _paths(self) -> list[str]:
        executors = [below for application in _folders(self._folder) for below in _newest(application)]
        paths = [os.path.join(executor, name) for executor in executors for name in NAMES]
        return [path for path in paths if os.path.isfile(path)]


def _newest(application: str) -> list[str]:
    """The folders of its executors that were started last."""
    return sorted(_folders(application), key=lambda path: (len(path), path))[-EXECUTORS_MAX:]


def _folders(folder: str) -> list[str]:
    """The folders in a folder; none if it is not there, or just being deleted."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def main(folder: str) -> None:
    """Follow until the process that started this one is gone."""
    parent, followed = os.getppid(), LogFollower(folder)
    while True:
        alone = os.getppid() != parent
        output = followed.read()
        while output:
            output = output[os.write(STANDARD_OUTPUT, output) :]
        if alone:
            return
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
