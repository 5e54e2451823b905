"""Runs in a pod: a folder to read, on the mounted volume or on S3, behind one interface (pyarrow's).

S3 is found by the variables that all its clients share. pyarrow reads them itself, but for the server's address.

    python places.py s3://BUCKET        makes the bucket
"""

from __future__ import annotations

import os
import sys
from urllib.parse import urlsplit

from pyarrow import fs


def at(url: str) -> fs.FileSystem:
    """The folder as a file system of its own, in which names are relative to it.

    >>> at("/data/results").base_path
    '/data/results/'
    """
    parts = urlsplit(url)
    if parts.scheme in ("s3", "s3a"):
        return fs.SubTreeFileSystem(parts.netloc + parts.path, _s3())
    return fs.SubTreeFileSystem(url, fs.LocalFileSystem())


def files(place: fs.FileSystem, folder: str, recursive: bool = False) -> list[fs.FileInfo]:
    """The files in a folder of it; none if there is no such folder."""
    found = place.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=recursive))
    return [each for each in found if each.is_file]


def text(place: fs.FileSystem, name: str) -> str:
    """A whole file."""
    with place.open_input_file(name) as file:
        whole: bytes = file.readall()
    return whole.decode()


def _s3() -> fs.S3FileSystem:
    where = os.environ["AWS_ENDPOINT_URL"]
    return fs.S3FileSystem(endpoint_override=where, region=os.environ["AWS_REGION"], allow_bucket_creation=True)


if __name__ == "__main__":
    _s3().create_dir(urlsplit(sys.argv[1]).netloc)
