"""A release is refused if its versions, change log or tree are wrong; its files are equal whenever they are made."""

from __future__ import annotations

import doctest
import gzip
import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import binshift

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import build_dist
import release
import release_versions
import sbom

ROOT = Path(__file__).resolve().parents[2]
VERSION = binshift.__version__


def read(name: str) -> str:
    """A file of the working tree."""
    return (ROOT / name).read_text(encoding="utf-8")


def other(place: str, old: str, new: str) -> Callable[[str], str]:
    """The working tree with a change."""
    return lambda name: read(name).replace(old, new) if name == place else read(name)


@pytest.mark.parametrize("module", [release_versions, sbom])
def test_examples_are_right(module: Any) -> None:
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted > 0


def test_versions_belong_together() -> None:
    """Wheel, chart, CRD, documents and images of the end-to-end tests have one version."""
    assert release_versions.version_of(read) == VERSION
    assert release_versions.version_problems(read, VERSION) == []


@pytest.mark.parametrize("place", list(release_versions.PLACES)[1:])
def test_another_version_is_found(place: str) -> None:
    """A place with another version is named, and so is one without any."""
    (first, *_) = release_versions.version_problems(other(place, VERSION, "9.8.7"), VERSION)
    assert first == f"{place} has version 9.8.7, the wheel {VERSION}"
    assert f"{place} has no version" in release_versions.version_problems(other(place, VERSION, ""), VERSION)[0]


def test_a_version_without_a_section_is_found() -> None:
    """The change log must have the version."""
    assert release_versions.changelog_problems(read("CHANGELOG.md"), "9.8.7")[0] == "CHANGELOG.md has no section 9.8.7"


@pytest.mark.parametrize("extra", release.LOCKS)
def test_the_list_of_packages_is_the_lock_file(extra: str) -> None:
    """Every pinned package is a component with its version, the direct ones are needed by binshift, and no reference is open."""
    lock = read(f"requirements/{extra}.txt")
    made = sbom.document(lock, VERSION, extra, 1_700_000_000)
    pins = set(re.findall(r"^([a-z][^ ;=]*)==([^ ;]+)", lock, re.MULTILINE))
    assert {(each["name"], each["version"]) for each in made["components"]} == pins
    needs = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert {ref for refs in needs.values() for ref in refs} <= needs.keys()
    named = {ref.partition("/")[2].partition("@")[0] for ref in needs[sbom.purl("binshift", VERSION)]}
    direct = {"runtime": {"pyspark", "numpy"}, "operator": {"kopf", "numpy"}}[extra]
    assert named >= direct
    assert "six" not in named
    assert made == sbom.document(lock, VERSION, extra, 1_700_000_000)
    assert made["serialNumber"] != sbom.document(lock, "9.8.7", extra, 1_700_000_000)["serialNumber"]


FILES = {"values.yaml": b"image:\n  repository: localhost/x\n", "Chart.yaml": b"name: binshift\n", "a/b.yaml": b"1"}


def test_the_chart_is_packed_equally() -> None:
    """The same files in another order give the same bytes; Chart.yaml is first, and ignored files are left out."""
    files = FILES | {".helmignore": b"*.swp\n", "a/.b.swp": b""}
    packed = release.chart_archive(files, 1_700_000_000, None)
    assert packed == release.chart_archive(dict(reversed(files.items())), 1_700_000_000, None)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["binshift/Chart.yaml", "binshift/a/b.yaml", "binshift/values.yaml"]
        assert {each.mtime for each in archive} == {1_700_000_000}


def test_a_published_chart_names_the_published_image() -> None:
    """With a registry, the default image is the one that is published."""
    text = gzip.decompress(release.chart_archive(FILES, 0, "example/binshift-operator"))
    assert b"  repository: example/binshift-operator\n" in text
    assert b"localhost" not in text
    assert re.search(r"(?m)^image:\n  repository: \S+$", read("charts/binshift/values.yaml"))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a release ran, on a tree without problems where nothing is really built."""
    found: list[str] = []

    def make(commit: str, version: str, repository: str | None) -> list[str]:
        found.append(f"make {version} {repository}")
        (tmp_path / f"binshift-{version}.tgz").write_text("chart", encoding="utf-8")
        return []

    def run(command: list[str], **_: Any) -> None:
        found.append(" ".join(command))
        if tuple(command) == release.IMAGES_BUILT:
            for name in ("operator-linux-amd64.cdx.json", "operator/index.json"):
                (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / "images" / name).write_text("{}", encoding="utf-8")

    monkeypatch.setattr(release, "problems", lambda commit, version: [])
    monkeypatch.setattr(release, "make", make)
    monkeypatch.setattr(release, "DIST", tmp_path)
    monkeypatch.setattr(release, "helm", lambda: None)
    monkeypatch.setattr(build_dist, "last_commit", lambda: "HEAD")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(release, "reader", lambda commit: read)
    return found


def test_publishing_ends_with_the_index(ran: list[str]) -> None:
    """Images come before the chart that names them, and the package, which cannot be replaced, is last."""
    assert release.release(dry=False, registry="example") == 0
    assert ran[:2] == [f"make {VERSION} example/binshift-operator", "make images"]
    programs = [command.split()[0].rpartition("/")[2] for command in ran[2:]]
    assert programs == ["skopeo", "skopeo", "helm", "gh", "twine"]


def test_what_builds_does_not_publish(ran: list[str], tmp_path: Path) -> None:
    """The first part ends with checksums of everything, which is all that the second part publishes."""
    assert release.release(dry=False, registry="example", parts=["build"]) == 0
    assert ran == [f"make {VERSION} example/binshift-operator", "make images"]
    names = [line.partition("  ")[2] for line in (tmp_path / release.SUMS).read_text().splitlines()]
    files = [f"binshift-{VERSION}.tgz", "images/operator-linux-amd64.cdx.json"]
    assert names == [*files, "images/operator/index.json"]
    ran.clear()
    assert release.release(dry=False, registry="example", parts=["publish"]) == 0
    assert [command for command in ran if command.startswith("make")] == []
    (page,) = (command for command in ran if command.startswith("gh "))
    assert page.split()[-3:] == [f"dist/{name}" for name in (*files, release.SUMS)]


@pytest.mark.parametrize("damage", ["other", "missing", "no sums"])
def test_another_file_is_not_published(
    ran: list[str], tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is not the one that was built is named, and nothing is published."""
    assert release.release(dry=False, registry="example", parts=["build"]) == 0
    path = tmp_path / (release.SUMS if damage == "no sums" else "images/operator/index.json")
    path.write_text("other") if damage == "other" else path.unlink()
    ran.clear()
    assert release.release(dry=False, registry="example", parts=["publish"]) == 1
    assert ran == []
    assert str(path) in capsys.readouterr().out


def test_a_dry_run_publishes_nothing(ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run builds, and prints the commands instead of running them."""
    assert release.release(dry=True, registry="") == 0
    assert ran == [f"make {VERSION} None"]
    assert f"docker://REGISTRY/binshift-operator:{VERSION}" in capsys.readouterr().out


@pytest.mark.parametrize("registry", ["", "example"])
def test_a_problem_prevents_a_release(
    ran: list[str], registry: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is built or published if there is a problem; a dry run shows it, and fails after the build."""
    monkeypatch.setattr(release, "problems", lambda commit, version: ["the last commit has no tag"] if registry else [])
    assert release.release(dry=False, registry=registry) == 1
    assert ran == []
    wrong = "the last commit has no tag" if registry else "REGISTRY is not set: images and chart have no place"
    assert capsys.readouterr().out == f"{VERSION} cannot be released:\n  {wrong}\n"
    assert release.release(dry=True, registry=registry) == (1 if registry else 0)
    assert len(ran) == 1


def test_files_that_do_not_belong_are_found() -> None:
    """A test in the wheel, a missing Java source, and an untracked file in the sdist are named."""
    files = ["runtime/binshift/a.java", "operator/binshift_operator/b.py", "runtime/tests/test_a.py", "LICENSE"]
    assert (
        build_dist.unexpected_in_wheel(["binshift/a.java", "binshift_operator/b.py", "x.dist-info/RECORD"], files) == []
    )
    assert build_dist.unexpected_in_wheel(["tests/test_a.py", "binshift/a.java"], files) == [
        "+tests/test_a.py",
        "-binshift_operator/b.py",
    ]
    assert build_dist.unexpected_in_sdist(["b/LICENSE", "b/PKG-INFO", "b/new"], files) == [
        "+new",
        "-operator/binshift_operator/b.py",
        "-runtime/binshift/a.java",
    ]
