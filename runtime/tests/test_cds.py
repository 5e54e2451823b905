"""The archive of Spark's classes is used if it exists, and harmless if it is missing or does not fit."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pyspark
import pytest

from binshift import cds
from binshift.java import java_home


@pytest.fixture
def archived(tmp_path: Path) -> Path:
    """A folder with an archive that Java rejects."""
    (tmp_path / cds.ARCHIVE).write_bytes(b"\0" * 4096)
    with zipfile.ZipFile(tmp_path / cds.JAR, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", cds.manifest(tmp_path, []))
    return tmp_path


def test_without_an_archive_nothing_changes(tmp_path: Path) -> None:
    """Without an archive there is no class path and no option for it; other options stay."""
    assert (cds.spark_conf(folder=tmp_path), cds.daemon_environment(folder=tmp_path)) == ({}, {})
    assert cds.daemon_environment("-Dx=y", tmp_path) == {"SPARK_DAEMON_JAVA_OPTS": "-Dx=y"}
    assert cds.spark_conf("-Dx=y", tmp_path) == {
        "spark.driver.defaultJavaOptions": "-Dx=y",
        "spark.executor.defaultJavaOptions": "-Dx=y",
    }


def test_all_processes_are_told(archived: Path) -> None:
    """Drivers and executors get the archive by conf, master and workers by their environment; the class path begins with it."""
    conf, daemons = cds.spark_conf("-Dx=y", archived), cds.daemon_environment("-Dx=y", archived)
    for options in (
        conf["spark.driver.defaultJavaOptions"],
        conf["spark.executor.defaultJavaOptions"],
        daemons["SPARK_DAEMON_JAVA_OPTS"],
    ):
        assert options.split()[:2] == ["-Dx=y", f"-XX:SharedArchiveFile={archived / cds.ARCHIVE}"]
    paths = [
        conf["spark.driver.extraClassPath"],
        conf["spark.executor.extraClassPath"],
        daemons["SPARK_DAEMON_CLASSPATH"],
    ]
    assert paths == [str(archived / cds.JAR)] * 3


def test_an_archive_that_does_not_fit_is_passed_over_in_silence(archived: Path) -> None:
    """Java starts as usual, and prints nothing more than usual, because Spark's scripts read its output."""
    java = [f"{java_home()}/bin/java", "-cp", cds.class_path(archived)]
    usual = subprocess.run([*java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    ours = subprocess.run(
        [*java, *cds.java_options(archived).split(), "-version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert (ours.stdout, ours.stderr.replace(", sharing", "")) == (usual.stdout, usual.stderr.replace(", sharing", ""))


def test_a_manifest_is_one_that_java_reads(tmp_path: Path) -> None:
    """Its lines have at most 72 bytes, and it names jars relative to its own."""
    jars = [tmp_path / f"{'long' * 20}{number}.jar" for number in range(5)]
    text = cds.manifest(tmp_path / "classes", jars)
    assert max(map(len, text.splitlines())) < 72
    joined = text.replace("\n ", "")
    assert joined.splitlines()[1].split()[1:] == [f"../{jar.name}" for jar in jars]


def test_the_archive_is_used_whatever_follows_in_the_class_path(tmp_path: Path) -> None:
    """The archive is used with a conf folder and with Spark's jars in any order; without its jar it is ignored."""
    if not cds.class_path():
        pytest.skip("no archive exists: `make setup` creates one")
    (tmp_path / "spark-defaults.conf").write_text("")
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"), reverse=True)
    for begins, shared in ((cds.class_path(), True), (str(jars[0]), False)):
        path = ":".join([begins, f"{tmp_path}/", *map(str, jars)])
        options = [*cds.java_options().split(), "-Xlog:class+load", "-cp", path]
        command = [f"{java_home()}/bin/java", *options, "org.apache.spark.deploy.SparkSubmit", "--version"]
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        loaded = [line for line in output.splitlines() if "org.apache.spark." in line and "source: " in line]
        from_archive = [line for line in loaded if "shared objects file (top)" in line]
        assert bool(from_archive) is shared, loaded[:5]


def test_there_is_no_archive_of_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command fails with a clear error, and leaves no file."""
    monkeypatch.setattr(cds, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="PySpark is not installed"):
        cds.make(tmp_path / "classes")
    assert not (tmp_path / "classes").exists()
