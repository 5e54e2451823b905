"""The minimal example with all that it keeps on S3, checkpoint and results, and no volume; and the server for it.

The server is versitygw (`versitygw/`), in the story's own namespace, with credentials made up for the story. It answers as S3
does where the log depends on it: of any number of writers that create one object at one time, one gets to.
"""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path
from typing import Any

import yaml

from clusters import ROOT, Cluster
from kube import Kube
from workloads import minimal
from workloads.minimal import WATCHER

FOLDER = Path(__file__).parent / "versitygw"
BUILT = ROOT / "build" / "versitygw"
IMAGE = "localhost/versitygw:dev"
BUILD_SECONDS_MAX = 1800.0
NAME = "s3"
"""Of the server, its address, and the Secret with what its clients have to know."""
PORT = 7070
PLACE = "s3a://dataflows/minimal"
CHECKPOINT = f"{PLACE}/checkpoint"


def build(cluster: Cluster, name: str = IMAGE) -> None:
    """Build the server and bring its image to the nodes, under a name; quick if nothing changed."""
    subprocess.run([FOLDER / "build.sh", BUILT], check=True, timeout=BUILD_SECONDS_MAX)
    cluster.image(name, BUILT, "--file", str(FOLDER / "Dockerfile"))


def serve(kube: Kube, watcher_image: str) -> None:
    """Start the server, and the watcher with the same Secret; make the bucket."""
    known = {
        "AWS_ACCESS_KEY_ID": secrets.token_hex(10),
        "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20),
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{NAME}:{PORT}",
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "stringData": known}
    server = yaml.safe_load_all((FOLDER / "manifest.yaml").read_text(encoding="utf-8"))
    kube.apply(secret, *server, *minimal.watcher(watcher_image, claim=None, secret=NAME))
    kube("rollout", "status", f"deployment/{NAME}", "--timeout=120s", seconds=130)
    kube("wait", "--for=condition=Ready", f"pod/{WATCHER}", "--timeout=120s", seconds=130)
    kube("exec", WATCHER, "--", "python", "/scripts/places.py", PLACE)


def dataflow(**changes: Any) -> dict[str, Any]:
    """The example's dataflow, with other fields in its spec."""
    _, made = minimal.objects(**changes)
    spec = made["spec"]
    spec["application"]["args"][0] = f"{PLACE}/results"
    spec["checkpoint"] = {"location": CHECKPOINT, "credentialsSecret": NAME}
    return made


def verify(kube: Kube) -> None:
    """Have the log checked; raises `kube.Refused` with what is wrong if a bin could not be rebuilt from it."""
    kube("exec", WATCHER, "--", "sh", "-c", f"binshift log verify {CHECKPOINT}/binshift >&2", seconds=120)
