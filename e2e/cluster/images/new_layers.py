"""From a Docker archive to an OCI archive without the layers that a node has: ``new_layers.py KNOWN <in >out``.

``KNOWN`` is a file that lists digests, one a line (as ``ctr content ls -q`` does). Layers are left as they are, so that a
layer's digest is that of its contents (its diff id, the archive's name for it) and images that share layers share them in
containerd, too. Both archives are streams: nothing is written to a disk, and little is kept in memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import IO, Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def translate(docker: tarfile.TarFile, oci: tarfile.TarFile, known: frozenset[str]) -> None:
    """Write what ``docker`` holds (one image, with its name) to ``oci``, without the layers among ``known`` digests."""
    sizes: dict[str, int] = {}
    image: dict[str, Any] = {}
    for member in docker:
        file, stem = docker.extractfile(member) if member.isreg() else None, member.name.rpartition(".")[0]
        if file is None or "/" in member.name:
            continue  # names of layers for the oldest of Dockers
        if member.name == "manifest.json":
            (image,) = json.load(file)
            continue
        sizes[member.name] = member.size
        if f"sha256:{stem}" not in known:
            add(oci, f"blobs/sha256/{stem}", file, member.size)
    names = [(CONFIG, image["Config"]), *((LAYER, name) for name in image["Layers"])]
    config, *layers = [descriptor(kind, name.rpartition(".")[0], sizes[name]) for kind, name in names]
    manifest = text({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers})
    digest = hashlib.sha256(manifest).hexdigest()
    entry = descriptor(MANIFEST, digest, len(manifest)) | {
        "annotations": {"io.containerd.image.name": image["RepoTags"][0]}
    }
    for name, content in (
        (f"blobs/sha256/{digest}", manifest),
        ("oci-layout", text({"imageLayoutVersion": "1.0.0"})),
        ("index.json", text({"schemaVersion": 2, "manifests": [entry]})),
    ):
        add(oci, name, io.BytesIO(content), len(content))


def descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    """What OCI calls a content descriptor."""
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def text(value: object) -> bytes:
    """The same bytes for the same value."""
    return json.dumps(value, sort_keys=True).encode()


def add(archive: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> None:
    """One plain file."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    archive.addfile(entry, file)


if __name__ == "__main__":
    with (
        tarfile.open(fileobj=sys.stdin.buffer, mode="r|", bufsize=1 << 20) as source,
        tarfile.open(fileobj=sys.stdout.buffer, mode="w|", bufsize=1 << 20) as target,
    ):
        translate(source, target, frozenset(Path(sys.argv[1]).read_text().split()))
