"""Writes what an image contains as CycloneDX documents, one for each platform of an OCI layout.

It reads the layers and runs nothing: the packages in Debian's database, the metadata of Python packages, and jars with the coordinates that
Maven wrote into them. The same layout gives the same documents.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import sbom

DPKG = "var/lib/dpkg/status"
_WANTED = re.compile(rf"{DPKG}|(usr/lib|etc)/os-release|.*\.dist-info/METADATA|.*\.jar")
_HIDES, _HIDES_ALL = ".wh.", ".wh..wh..opq"
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar")

Files = dict[str, bytes]


def blob(layout: Path, digest: str) -> Path:
    """The path of a blob."""
    return layout / "blobs" / digest.replace(":", "/", 1)


def images(layout: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Platform, digest and manifest of each image in a layout."""
    waiting = list(json.loads((layout / "index.json").read_text(encoding="utf-8"))["manifests"])
    while waiting:
        found = json.loads(blob(layout, digest := waiting.pop(0)["digest"]).read_text(encoding="utf-8"))
        if "manifests" in found:
            waiting += found["manifests"]
        else:
            config = json.loads(blob(layout, found["config"]["digest"]).read_text(encoding="utf-8"))
            yield f"{config['os']}/{config['architecture']}", digest, found


def wanted_files(layers: Sequence[Path]) -> Files:
    """The files that name packages, as they are when the layers are laid over each other."""
    found: Files = {}
    for layer in layers:
        with tarfile.open(layer) as archive:
            _lay_over(found, archive)
    return found


def _lay_over(found: Files, archive: tarfile.TarFile) -> None:
    added: Files = {}
    for entry in archive:
        path = PurePosixPath(entry.name.lstrip("./"))
        if path.name.startswith(_HIDES):
            gone = str(path.parent if path.name == _HIDES_ALL else path.with_name(path.name.removeprefix(_HIDES)))
            for each in [name for name in found if name == gone or name.startswith(f"{gone}/")]:
                del found[each]
        elif entry.isfile() and _WANTED.fullmatch(str(path)):
            content = archive.extractfile(entry)
            assert content is not None
            added[str(path)] = content.read()
    found |= added


def component(name: str, version: str, purl: str, **more: Any) -> dict[str, Any]:
    """A package in a document."""
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **more}


def debian_packages(status: str, release: str) -> Iterator[dict[str, Any]]:
    """The installed packages in Debian's database.

    >>> text = "Package: tini\\nStatus: install ok installed\\nVersion: 0.19-1+b3\\nArchitecture: arm64\\n\\nPackage: x\\nStatus: deinstall ok\\n"
    >>> [each["purl"] for each in debian_packages(text, "12")]
    ['pkg:deb/debian/tini@0.19-1%2Bb3?arch=arm64&distro=debian-12']
    """
    for stanza in status.split("\n\n"):
        fields = HeaderParser().parsestr(stanza)
        if fields["Status"] == "install ok installed":
            name, version, arch = fields["Package"], fields["Version"], fields["Architecture"]
            purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}"
            yield component(name, version, f"{purl}?arch={arch}&distro=debian-{release}")


def python_package(metadata: bytes) -> dict[str, Any]:
    """A Python package."""
    fields = HeaderParser().parsestr(metadata.decode().partition("\n\n")[0])
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    return component(fields["Name"], fields["Version"], sbom.purl(name, fields["Version"]))


def jar(path: str, content: bytes) -> dict[str, Any]:
    """A jar: its coordinates where Maven wrote them, otherwise by its name."""
    hashes = [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        names = [
            name for name in packed.namelist() if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", name)
        ]
        if len(names) == 1:
            lines = packed.read(names[0]).decode().splitlines()
            read = dict(line.strip().split("=", 1) for line in lines if "=" in line)
            name, version = read["artifactId"], read["version"]
            purl = f"pkg:maven/{read['groupId']}/{name}@{version}"
            return component(name, version, purl, group=read["groupId"], hashes=hashes)
    parts = _JAR.fullmatch(PurePosixPath(path).name)
    name, version = (parts["name"], parts["version"]) if parts else (PurePosixPath(path).stem, "")
    purl = f"pkg:generic/{quote(name)}" + (f"@{quote(version)}" if version else "")
    return component(name, version, purl, hashes=hashes)


def document(name: str, platform: str, digest: str, files: Files) -> dict[str, Any]:
    """The document of an image."""
    release = "".join(data.decode() for path, data in files.items() if path.endswith("/os-release"))
    number = re.search(r'^VERSION_ID="?([\d.]+)', release, re.MULTILINE)
    found = list(debian_packages(files.get(DPKG, b"").decode(), number[1] if number else ""))
    found += [python_package(data) for path, data in files.items() if path.endswith("/METADATA")]
    found += [jar(path, data) for path, data in files.items() if path.endswith(".jar")]
    by_ref = {each["bom-ref"]: each for each in found}
    purl = f"pkg:oci/{name}@{quote(digest, safe='')}?arch={platform.partition('/')[2]}"
    own = {"type": "container", "bom-ref": purl, "name": name, "version": digest, "purl": purl}
    components = [each for _, each in sorted(by_ref.items())]
    return sbom.sealed({"metadata": {"component": own}, "components": components})


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the documents next to the layouts in a folder; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the layouts")
    folder: Path = parser.parse_args(arguments).folder
    for layout in sorted(each.parent for each in folder.glob("*/index.json")):
        for platform, digest, manifest in images(layout):
            files = wanted_files([blob(layout, each["digest"]) for each in manifest["layers"]])
            made = document(layout.name, platform, digest, files)
            path = folder / f"{layout.name}-{platform.replace('/', '-')}.cdx.json"
            path.write_text(sbom.text(made), encoding="utf-8")
            sys.stdout.write(f"{path}  {len(made['components'])} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
