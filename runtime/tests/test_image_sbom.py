"""The list of what an image contains: from the layers of a small OCI layout with two platforms."""

from __future__ import annotations

import doctest
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import image_sbom
import sbom

DPKG = "Package: tini\nStatus: install ok installed\nVersion: 0.19\nArchitecture: {arch}\n"
SITE = "opt/binshift/lib/python3.11/site-packages"


def packed(**files: str | bytes) -> bytes:
    """A jar."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def layer(files: dict[str, str | bytes]) -> bytes:
    """A compressed layer."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, data in files.items():
            entry, content = tarfile.TarInfo(name), data.encode() if isinstance(data, str) else data
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def layers(arch: str) -> list[dict[str, str | bytes]]:
    """The files of three layers: the second hides what the first has, the third changes a package."""
    maven = packed(**{"META-INF/maven/org.x/a-b/pom.properties": "groupId=org.x\nartifactId=a-b\nversion=2\n"})
    first: dict[str, str | bytes] = {
        "./usr/lib/os-release": 'VERSION_ID="12"\n',
        "./var/lib/dpkg/status": DPKG.format(arch=arch),
        f"{SITE}/Some_Name-1.dist-info/METADATA": "Name: Some_Name\nVersion: 1\n\nText: no field\n",
        "usr/lib/python3/dist-packages/pip-23.dist-info/METADATA": "Name: pip\nVersion: 23\n",
        "opt/all/setuptools-1.dist-info/METADATA": "Name: setuptools\nVersion: 1\n",
        "opt/jars/a-b-2.jar": maven,
        "opt/jars/scala-library_2.13-4.1.jar": packed(x="y"),
        "opt/jars/README": "no package",
    }
    second: dict[str, str | bytes] = {
        "usr/lib/python3/dist-packages/.wh.pip-23.dist-info": "",
        "opt/all/.wh..wh..opq": "",
        "opt/all/wheel-3.dist-info/METADATA": "Name: wheel\nVersion: 3\n",
    }
    return [first, second, {f"{SITE}/Some_Name-1.dist-info/METADATA": "Name: Some_Name\nVersion: 1.1\n"}]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    """An OCI layout with an index of two platforms."""
    root = tmp_path / "binshift-x"
    (root / "blobs" / "sha256").mkdir(parents=True)

    def put(data: bytes | dict[str, Any]) -> dict[str, Any]:
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        digest = hashlib.sha256(content).hexdigest()
        (root / "blobs" / "sha256" / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    images = []
    for arch in ("amd64", "arm64"):
        config = put({"os": "linux", "architecture": arch})
        images.append(put({"config": config, "layers": [put(layer(files)) for files in layers(arch)]}))
    (root / "index.json").write_text(json.dumps({"manifests": [put({"manifests": images})]}))
    return root


def test_examples_are_right() -> None:
    """The examples in the docstrings give what they show."""
    assert doctest.testmod(image_sbom).failed == 0


def test_packages_of_all_kinds_are_listed(layout: Path) -> None:
    """Debian, Python and Java packages, as the upper layers leave them; what a layer hides is not listed."""
    found = {platform: manifest for platform, _, manifest in image_sbom.images(layout)}
    assert list(found) == ["linux/amd64", "linux/arm64"]
    blobs = [image_sbom.blob(layout, each["digest"]) for each in found["linux/arm64"]["layers"]]
    made = image_sbom.document("binshift-x", "linux/arm64", "sha256:0", image_sbom.wanted_files(blobs))
    assert [each["purl"] for each in made["components"]] == [
        "pkg:deb/debian/tini@0.19?arch=arm64&distro=debian-12",
        "pkg:generic/scala-library_2.13@4.1",
        "pkg:maven/org.x/a-b@2",
        "pkg:pypi/some-name@1.1",
        "pkg:pypi/wheel@3",
    ]
    assert made["metadata"]["component"]["purl"] == "pkg:oci/binshift-x@sha256%3A0?arch=arm64"


def test_each_platform_has_a_document(layout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documents stand next to the layout, one for each platform, and are equal when they are made again."""
    monkeypatch.setattr(sbom, "text", json.dumps)
    assert image_sbom.main([str(layout.parent)]) == 0
    made = {path.name: path.read_text() for path in layout.parent.glob("*.json")}
    assert sorted(made) == ["binshift-x-linux-amd64.cdx.json", "binshift-x-linux-arm64.cdx.json"]
    assert image_sbom.main([str(layout.parent)]) == 0
    assert made == {path.name: path.read_text() for path in layout.parent.glob("*.json")}
