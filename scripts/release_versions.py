"""What must be true of a release before anything is built: one version everywhere, a dated change log, a tag, a clean tree.

Each check is a function from texts to the problems in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_CRD = (r"^    binshift\.dev/version: (\S+)$",)
_IMAGE = (r"binshift-operator:(\d[\w.]*)",)
PLACES: Mapping[str, tuple[str, ...]] = {
    "runtime/binshift/__init__.py": (r'^__version__ = "([^"]+)"$',),
    "charts/binshift/Chart.yaml": (r"^version: (\S+)$", r'^appVersion: "([^"]+)"$'),
    "crds/streamingdataflows.yaml": _CRD,
    "charts/binshift/crds/streamingdataflows.yaml": _CRD,
    "crds/streamingdataflowsnapshots.yaml": _CRD,
    "charts/binshift/crds/streamingdataflowsnapshots.yaml": _CRD,
    "docs/guides/install.md": (*_IMAGE, r"tag: ([\d.]+)\}"),
    "docs/building-images.md": _IMAGE,
    "e2e/stage.py": _IMAGE,
    "e2e/workloads/upgraded/Dockerfile": _IMAGE,
}
"""Where a release's version is written: the wheel's first, then chart, CRD and the tags of images."""


def version_of(read: Callable[[str], str]) -> str:
    """The wheel's version, which all others must equal; ``read`` returns the text of a file."""
    place, (pattern,) = next(iter(PLACES.items()))
    found = re.search(pattern, read(place), re.MULTILINE)
    if found is None:
        raise ValueError(f"{place} has no version")
    return found[1]


def version_problems(read: Callable[[str], str], version: str) -> list[str]:
    """Every place with another version, or with none."""
    problems = []
    for place, patterns in PLACES.items():
        for pattern in patterns:
            found = re.findall(pattern, read(place), re.MULTILINE)
            problems += [f"{place} has version {each}, the wheel {version}" for each in found if each != version]
            problems += [] if found else [f"{place} has no version: nothing matches {pattern}"]
    return problems


def changelog_problems(changelog: str, version: str) -> list[str]:
    """The version has a dated section, and there is nothing that belongs to a later one.

    >>> changelog_problems("## [Unreleased]\\n\\n## [1.0.0] - 2026-01-31\\n", "1.0.0")
    []
    >>> changelog_problems("## [Unreleased]\\n- More.\\n## [1.0.0] - Unreleased\\n", "1.0.0")
    ['CHANGELOG.md has no date for 1.0.0', 'CHANGELOG.md has unreleased changes: move them to the section of 1.0.0']
    """
    problems = []
    section = re.search(rf"^## \[{re.escape(version)}\] - (.*)$", changelog, re.MULTILINE)
    if section is None:
        problems.append(f"CHANGELOG.md has no section {version}")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", section[1]):
        problems.append(f"CHANGELOG.md has no date for {version}")
    later = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if later is not None and later[1].strip():
        problems.append(f"CHANGELOG.md has unreleased changes: move them to the section of {version}")
    return problems


def tree_problems(status: str, tags: str, version: str) -> list[str]:
    """The outputs of `git status --porcelain` and `git tag --points-at HEAD`: no uncommitted files, and the tag of the version.

    >>> tree_problems(" M README.md\\n?? new\\n", "", "1.0.0")
    ['2 files are not committed: README.md, new', 'the last commit has no tag v1.0.0']
    """
    changed = [line[3:] for line in status.splitlines()]
    more = ", ..." if len(changed) > 5 else ""
    problems = [f"{len(changed)} files are not committed: {', '.join(changed[:5])}{more}"] if changed else []
    return problems + ([] if f"v{version}" in tags.split() else [f"the last commit has no tag v{version}"])
