"""Makes everything that a release consists of, in `dist/`, and publishes it: `make release DRY=1` stops before the images are built.

Wheel and sdist, the chart's archive, the lists of packages (CycloneDX) and SHA256SUMS. All are made from the last commit, and are equal if
they are made again. A dry run reports problems at its end and builds anyway; otherwise a problem ends the command before it builds.
The two parts can run on two machines, so that what builds has no right to publish: the second part compares `dist/` with SHA256SUMS.
Publishing needs REGISTRY, the place for images and charts, and the logins of twine, helm, skopeo and gh.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

import build_dist
import release_versions
import sbom
from build_dist import DIST, ROOT, Refused, run

CHART = "charts/binshift/"
LOCKS = ("operator", "runtime")
IMAGES = {"operator": "binshift-operator", "spark": "binshift-spark"}
"""Target of the Dockerfile -> name of the image."""
SUMS = "SHA256SUMS"
PARTS = ("build", "publish")
IMAGES_BUILT = ("make", "images")
INDEX = "index.json"
"""Of an image's layout."""
KUBE_VERSION = "1.29.0"
"""The oldest that the chart accepts; helm built without a release has an older one."""


def reader(commit: str) -> Callable[[str], str]:
    """Reads the files of a commit."""
    return lambda name: run("git", "show", f"{commit}:{name}")


def problems(commit: str, version: str) -> list[str]:
    """What prevents a release."""
    read, status = reader(commit), run("git", "status", "--porcelain")
    found = release_versions.tree_problems(status, run("git", "tag", "--points-at", commit), version)
    found += release_versions.changelog_problems(read("CHANGELOG.md"), version)
    return found + release_versions.version_problems(read, version)


def chart_archive(files: dict[str, bytes], seconds: int, repository: str | None) -> bytes:
    """The chart as helm packages it, with equal bytes for equal files.

    Args:
        files: of the chart's folder, by path in it.
        seconds: the time of all files, since 1970.
        repository: where the operator's image is published; None leaves the default.
    """
    ignored = files.get(".helmignore", b"").decode().split()
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=seconds, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in sorted(files.items(), key=lambda file: (file[0] != "Chart.yaml", file[0])):
            if name == ".helmignore" or any(PurePosixPath(name).match(each) for each in ignored):
                continue
            if name == "values.yaml" and repository:
                data = re.sub(rb"(?m)^  repository: \S+$", f"  repository: {repository}".encode(), data, count=1)
            entry = tarfile.TarInfo(f"binshift/{name}")
            entry.size, entry.mtime, entry.mode = len(data), seconds, 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def chart_files(commit: str) -> dict[str, bytes]:
    """The files of the chart's folder in a commit, by path in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "commit"
        build_dist.export(folder, commit)
        paths = [path for path in (folder / CHART).rglob("*") if path.is_file()]
        return {path.relative_to(folder / CHART).as_posix(): path.read_bytes() for path in paths}


def helm() -> str | None:
    """The path of helm, if there is one: on the PATH, or built by `make chart`."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return shutil.which("helm") or shutil.which("helm", path=Path(cache) / "kube-node" / "bin")


def check_chart(archive: Path, version: str) -> bool:
    """Have helm read and render the archive; False if there is no helm.

    Raises:
        Refused: helm cannot, or finds another version.
    """
    program = helm()
    if program is None:
        return False
    shown = run(program, "show", "chart", archive)
    for line in (f"version: {version}", f"appVersion: {version}"):
        if line not in shown.splitlines():
            raise Refused(f"{archive} has no line {line!r}")
    run(program, "template", "binshift", archive, "--include-crds", "--kube-version", KUBE_VERSION)
    return True


def make(commit: str, version: str, repository: str | None) -> list[str]:
    """Make all files of the release in `DIST`; returns what was not checked.

    Raises:
        Refused: a check failed.
    """
    seconds, read = int(build_dist.commit_time(commit)), reader(commit)
    build_dist.make(commit)
    chart = DIST / f"binshift-{version}.tgz"
    chart.write_bytes(chart_archive(chart_files(commit), seconds, repository))
    for extra in LOCKS:
        made = sbom.document(read(f"requirements/{extra}.txt"), version, extra, seconds)
        (DIST / f"binshift-{version}-{extra}.cdx.json").write_text(sbom.text(made), encoding="utf-8")
    return [] if check_chart(chart, version) else ["helm has not read the chart's archive: make chart builds helm"]


def write_sums(*, images: bool) -> None:
    """Write SHA256SUMS of the files, and with ``images`` of their package lists and indexes, which have the checksums of the rest of them."""
    patterns = ["binshift-*", *(["images/*.json", f"images/*/{INDEX}"] if images else [])]
    files = [path for pattern in patterns for path in sorted(DIST.glob(pattern))]
    (DIST / SUMS).write_text("".join(map(_sum, files)), encoding="utf-8")


def _sum(path: Path) -> str:
    """The line of a file in `DIST`, as sha256sum writes it."""
    return f"{build_dist.digest(path)}  {path.relative_to(DIST)}\n"


def _read_sums() -> dict[Path, str]:
    """The files that SHA256SUMS has, with their lines; none if it does not exist."""
    path = DIST / SUMS
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return {DIST / line.rstrip("\n").partition("  ")[2]: line for line in lines}


def sum_problems() -> list[str]:
    """The files of SHA256SUMS that are missing or have other bytes."""
    if not (files := _read_sums()):
        return [f"{DIST / SUMS} has no files: make release PART=build"]
    wrong = [path for path, line in files.items() if not path.exists() or _sum(path) != line]
    return [f"{path} is not the file of {SUMS}" for path in wrong]


def publishing(version: str, registry: str) -> list[list[str]]:
    """The commands that publish the release, in their order: what others depend on first, what cannot be replaced last."""
    commands = []
    for name in IMAGES.values():
        image = f"{name}:{version}"
        commands.append(["skopeo", "copy", "--all", f"oci:dist/images/{image}", f"docker://{registry}/{image}"])
    wheel, sdist = f"dist/binshift-{version}-py3-none-any.whl", f"dist/binshift-{version}.tar.gz"
    shown = [path for path in (*_read_sums(), DIST / SUMS) if path.name != INDEX]
    files = [f"dist/{path.relative_to(DIST)}" for path in shown]
    notes = ["--notes", f"CHANGELOG.md has the changes of {version}."]
    return [
        *commands,
        [helm() or "helm", "push", f"dist/binshift-{version}.tgz", f"oci://{registry}/charts"],
        ["gh", "release", "create", f"v{version}", "--verify-tag", "--title", version, *notes, *files],
        [os.path.relpath(build_dist.BIN / "twine", ROOT), "upload", "--non-interactive", wheel, sdist],
    ]


def release(dry: bool, registry: str, parts: Sequence[str] = PARTS) -> int:
    """Check, build, and publish unless ``dry``; the exit status.

    Args:
        dry: build what needs no images, and print the commands of the rest.
        registry: the place for images and charts; "" is a problem unless ``dry``.
        parts: of `PARTS`, those to run.
    """
    commit = build_dist.last_commit()
    version = release_versions.version_of(reader(commit))
    found = problems(commit, version)
    if not dry and not registry:
        found.append("REGISTRY is not set: images and chart have no place")
    if dry or not found:
        found += _build(commit, version, registry, dry=dry) if "build" in parts else sum_problems()
    if dry:
        commands: list[Sequence[str]] = [IMAGES_BUILT] if "build" in parts else []
        commands += publishing(version, registry or "REGISTRY") if "publish" in parts else []
        _lines([" ".join(command) for command in commands], "a release would run:")
    _lines(found, f"{version} cannot be released:")
    if not (found or dry) and "publish" in parts:
        for command in publishing(version, registry):
            _run(command)
    return 1 if found else 0


def _build(commit: str, version: str, registry: str, *, dry: bool) -> list[str]:
    """Make everything, unless ``dry`` with the images, and write and show the checksums; returns the problems."""
    unchecked = make(commit, version, f"{registry}/{IMAGES['operator']}" if registry else None)
    if not dry and not unchecked:
        _run(IMAGES_BUILT)
    write_sums(images=not dry)
    _lines((DIST / SUMS).read_text(encoding="utf-8").splitlines(), f"files of {version}:")
    if dry:
        _lines(unchecked, "not checked:")
    return [] if dry else unchecked


def _run(command: Sequence[str]) -> None:
    _lines([" ".join(command)], "run:")
    subprocess.run(command, cwd=ROOT, check=True)


def _lines(lines: Sequence[str], title: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in ([title, *(f"  {each}" for each in lines)] if lines else [])))
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status is 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dry", action="store_true", help="build and check everything, and only print how to publish it"
    )
    parser.add_argument("--part", choices=PARTS, help="run this part alone, in the order of the list")
    given = parser.parse_args(arguments)
    try:
        return release(given.dry, os.environ.get("REGISTRY", "").rstrip("/"), [given.part] if given.part else PARTS)
    except (Refused, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"binshift: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
