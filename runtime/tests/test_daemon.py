"""The daemon that forks Python workers: what it has loaded, and what must differ between its workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from binshift.spark import conf
from binshift.spark.tasks import daemon

FORKED = """
import os, random, sys
from binshift.spark.tasks import daemon
daemon.load([*daemon.MODULES, "no_such_module", "a_broken_module"])
import numpy, pyarrow as pa, pyarrow.compute as pc
for _ in range(2):
    read, write = os.pipe()
    if not os.fork():
        total = pc.sum(pa.array(range(100_000))).as_py()
        product = float((numpy.ones((300, 300)) @ numpy.ones((300, 300))).sum())
        new = [name for name in daemon.MODULES if name not in sys.modules]
        os.write(write, f"{total} {product} {numpy.random.random()} {random.random()} {new}".encode())
        os._exit(0)
    os.wait()
    print(os.read(read, 1000).decode())
"""


def test_workers_share_modules_and_differ_in_chance(tmp_path: Path) -> None:
    """A forked worker has all modules, can compute with Arrow and NumPy, and draws numbers of its own; a broken module is left out."""
    (tmp_path / "a_broken_module.py").write_text("raise SystemError('broken')")
    environment = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path]), "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FORKED], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second = (line.split(" ", 4) for line in done.stdout.splitlines())
    assert first[:2] == second[:2] == ["4999950000", "27000000.0"]
    assert first[4] == second[4] == "[]"
    assert first[2] != second[2]
    assert first[3] != second[3]


def test_what_is_installed_is_not_imported_from_archives(tmp_path: Path) -> None:
    """Archives of an installed PySpark leave the path, however it is spelled; without an installed package of that name they stay."""
    site, link = tmp_path / "site", tmp_path / "link"
    archives = site / "pyspark/python/lib"
    archives.mkdir(parents=True)
    (site / "pyspark/__init__.py").touch()
    link.symlink_to(site)
    py4j, other, users = (
        str(archives / "py4j-0.10.9.9-src.zip"),
        str(tmp_path / "spark/python/lib/pyspark.zip"),
        "/pyspark.zip",
    )
    path = [
        str(archives / "pyspark.zip"),
        str(link / "pyspark/python/lib/pyspark.zip"),
        py4j,
        other,
        "",
        users,
        str(site),
    ]
    assert daemon.without_archives(path) == [py4j, other, "", users, str(site)]
    assert daemon.without_archives(path[:-1]) == path[:-1]
    (site / "py4j").mkdir()
    (site / "py4j/__init__.py").touch()
    assert daemon.without_archives(path) == [other, "", users, str(site)]


def test_it_is_sparks_daemon_by_default() -> None:
    """The conf names it, and a program can name another one: nothing depends on it."""
    assert conf.required()["spark.python.daemon.module"] == daemon.__name__
    assert "spark.python.daemon.module" not in conf.STATIC
