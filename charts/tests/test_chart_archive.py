"""The chart's archive of a release: helm reads and renders it, with the versions and the image of the release."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import shipped

sys.path.append(str(shipped.CHARTS.parent / "scripts"))

import build_dist
import release
import release_versions

pytestmark = pytest.mark.chart


def test_helm_reads_the_archive(tmp_path: Path) -> None:
    """helm shows the wheel's version, and renders the deployment with the published image."""
    commit = build_dist.last_commit()
    version = release_versions.version_of(release.reader(commit))
    archive = tmp_path / f"binshift-{version}.tgz"
    archive.write_bytes(release.chart_archive(release.chart_files(commit), 1_700_000_000, "example/binshift-operator"))
    assert release.check_chart(archive, version)
    program = release.helm()
    assert program is not None
    rendered = build_dist.run(program, "template", "binshift", archive, "--kube-version", release.KUBE_VERSION)
    assert f'image: "example/binshift-operator:{version}"' in rendered
