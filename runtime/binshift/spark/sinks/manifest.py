"""The list of files that are an epoch's result: ``_SUCCESS`` in its folder, which readers skip and users can read.

```
binshift 1 _staged-7-5f0c...              the name under which the folder was written
5126 part-00000-....snappy.parquet        size in bytes, tab, name
1 files
```

The tasks that wrote the files report them. The list never comes from listing a directory: a failing disk can show a directory
as empty, which would lose rows. A truncated list is invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FINISHED: Final = "_SUCCESS"
"""The manifest's name in its folder; it exists once the folder is complete."""
_HEAD: Final = "binshift 1 "


@dataclass(frozen=True)
class Manifest:
    """The files of one run.

    Attributes:
        folder: the name under which they were written; never used again.
        files: size in bytes and name, relative to the folder, as readers see it.
    """

    folder: str
    files: Sequence[tuple[int, str]]

    @property
    def text(self) -> str:
        """As `parsed` reads it."""
        lines = [f"{size}\t{name}" for size, name in self.files]
        return "\n".join([_HEAD + self.folder, *lines, f"{len(lines)} files", ""])


def written(folder: str, lines: str) -> Manifest:
    """From the reports of the tasks (see `StagedFiles.java`).

    >>> written("_staged-0-a", "5126\\tn=7/part-0.json\\n").files
    ((5126, 'n=7/part-0.json'),)
    """
    return Manifest(folder, tuple(_file(line) for line in lines.split("\n")[:-1]))


def parsed(text: str | None) -> Manifest | None:
    """The manifest in ``text``; None if it is not complete.

    >>> parsed(Manifest("_staged-0-a", ((9, "x.json"),)).text)
    Manifest(folder='_staged-0-a', files=((9, 'x.json'),))
    >>> parsed(""), parsed(None), parsed("binshift 1 _staged-0-a\\n9\\tx.json\\n")
    (None, None, None)
    """
    lines = (text or "").split("\n")
    if len(lines) < 3 or not lines[0].startswith(_HEAD) or lines[-2:] != [f"{len(lines) - 3} files", ""]:
        return None
    return Manifest(lines[0].removeprefix(_HEAD), tuple(_file(line) for line in lines[1:-2]))


def hidden(name: str) -> str:
    """The name of a file until it is known to be part of the result; readers skip it.

    >>> hidden("n=7/part-0.json"), hidden("part-0.json")
    ('n=7/.part-0.json', '.part-0.json')
    """
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}"


def _file(line: str) -> tuple[int, str]:
    size, _, name = line.partition("\t")
    return int(size), name
