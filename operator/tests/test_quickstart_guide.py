"""The quickstart's manifests, its commands and its image belong together: names, keys, buckets, addresses and versions are the same."""

from __future__ import annotations

import importlib.util
import re
import shlex
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from guides import FOLDER, ROOT, lines, text
from test_crd import validate

MARKDOWN = text("quickstart.md")
LINES = lines(MARKDOWN)
(DATAFLOW,) = yaml.safe_load_all((FOLDER / "quickstart" / "dataflow.yaml").read_text(encoding="utf-8"))
SERVICE, DEPLOYMENT = yaml.safe_load_all((FOLDER / "quickstart" / "s3.yaml").read_text(encoding="utf-8"))
POD = DEPLOYMENT["spec"]["template"]["spec"]
(BUCKET,), (SERVER,) = POD["initContainers"], POD["containers"]


def of(section: str) -> list[str]:
    """The commands below a heading."""
    return lines(MARKDOWN.partition(f"\n## {section}\n")[2].partition("\n## ")[0])


def literals() -> dict[str, str]:
    """The keys of the Secret that the guide creates."""
    (line,) = (line for line in LINES if line.startswith("kubectl create secret generic s3 "))
    given = (word.split("=", 2) for word in shlex.split(line) if word.startswith("--from-literal="))
    return {key: value for _, key, value in given}


def test_four_commands_lead_to_the_first_scale() -> None:
    """Between the image and `kubectl scale` are four commands."""
    assert len(of("Four commands")) == 4
    assert of("Rescale it")[0] == "kubectl scale sdf/quickstart --replicas=3"
    assert DATAFLOW["metadata"]["name"] == "quickstart"
    assert DATAFLOW["spec"]["replicas"] < 3


def test_dataflow_is_accepted_and_has_no_volume() -> None:
    """The schema accepts the dataflow, whose checkpoint is on S3."""
    validate(DATAFLOW)
    assert DATAFLOW["spec"]["checkpoint"]["location"].startswith("s3://")
    assert "PersistentVolume" not in MARKDOWN
    assert [volume["name"] for volume in POD["volumes"] if "emptyDir" not in volume] == []


def test_one_image() -> None:
    """The image that is built is loaded, and is the operator's, the dataflow's and that of the init container."""
    (built,) = re.findall(r"^docker build --target quickstart -t (\S+) \.$", "\n".join(LINES), re.MULTILINE)
    assert f"kind load docker-image {built}" in LINES
    assert f"`k3d image import {built}`" in MARKDOWN
    assert DATAFLOW["spec"]["image"] == BUCKET["image"] == built
    repository, _, tag = built.rpartition(":")
    (install,) = (line for line in LINES if line.startswith("helm install"))
    assert f"--set image.repository={repository} --set image.tag={tag}" in install


def test_image_has_operator_and_program() -> None:
    """The stage begins with the spark image and adds the operator's packages and the program that the dataflow runs."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    stage = dockerfile.partition("\nFROM spark AS quickstart\n")[2]
    assert "COPY --from=operator-packages /opt/binshift /opt/binshift\n" in stage
    assert "COPY runtime/examples/minimal/minimal.py /app/\n" in stage
    assert DATAFLOW["spec"]["application"]["mainFile"] == "/app/minimal.py"


def test_bucket_is_created() -> None:
    """The init container makes the folder of the bucket in which checkpoint and results are."""
    data = SERVER["args"][-1]
    places = [DATAFLOW["spec"]["checkpoint"]["location"], *DATAFLOW["spec"]["application"]["args"]]
    assert {re.sub(r"^s3a?://", "", place).partition("/")[0] for place in places} == {"dataflows"}
    assert BUCKET["args"] == ["mkdir", "-p", f"{data}/dataflows"]
    assert BUCKET["volumeMounts"] == SERVER["volumeMounts"] == [{"name": "data", "mountPath": data}]


def test_secret_fits_server_and_dataflow() -> None:
    """The Secret has the service's address and the keys that the server reads; its credentials are new ones."""
    made = literals()
    assert DATAFLOW["spec"]["checkpoint"]["credentialsSecret"] == "s3"
    (port,) = SERVICE["spec"]["ports"]
    assert made["AWS_ENDPOINT_URL"] == f"http://{SERVICE['metadata']['name']}:{port['port']}"
    assert f":{port['port']}" in SERVER["args"]
    assert made["AWS_SECRET_ACCESS_KEY"] == "$(openssl rand -hex 20)"
    read = [each["valueFrom"]["secretKeyRef"] for each in SERVER["env"]]
    assert {each["name"] for each in read} == {"s3"}
    assert {each["key"] for each in read} | {"AWS_ENDPOINT_URL"} == made.keys()
    assert SERVICE["spec"]["selector"] == DEPLOYMENT["spec"]["template"]["metadata"]["labels"]


def test_server_is_the_tested_one() -> None:
    """Version and arguments of the server are those with which the end-to-end tests run; its pod is restricted."""
    folder = ROOT / "e2e" / "workloads" / "versitygw"
    (version,) = re.findall(r"github\.com/versity/versitygw (v\S+)", (folder / "go.mod").read_text(encoding="utf-8"))
    assert SERVER["image"].endswith(f"/versitygw:{version}")
    _, tested = yaml.safe_load_all((folder / "manifest.yaml").read_text(encoding="utf-8"))
    wanted = tested["spec"]["template"]["spec"]
    assert SERVER["args"] == wanted["containers"][0]["args"]
    assert SERVER["env"] == wanted["containers"][0]["env"]
    assert POD["securityContext"] == wanted["securityContext"]
    assert SERVER["securityContext"] == BUCKET["securityContext"] == wanted["containers"][0]["securityContext"]


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the story that runs the guide."""
    monkeypatch.syspath_prepend(str(ROOT / "e2e"))
    spec = importlib.util.spec_from_file_location("quickstart_story", ROOT / "e2e" / "test_quickstart.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_story_deletes_what_the_guide_names(story: ModuleType) -> None:
    """The story that runs the guide deletes by name what the guide creates, and nothing else."""
    deleted: list[tuple[str, ...]] = []

    def kube(*arguments: str, **_: Any) -> str:
        deleted.append(arguments)
        return ""

    story.leave_nothing(kube)
    assert all(arguments[0] == "delete" and "--all" not in arguments for arguments in deleted)
    named = {word for arguments in deleted for word in arguments if "/" in word}
    assert named == {"streamingdataflow/quickstart", "deployment/s3", "service/s3", "secret/s3"}
    assert story.public_image() == SERVER["image"]


def test_story_spares_other_clusters(story: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of KUBECONFIG is used only with explicit permission, as for the other guides."""
    monkeypatch.delenv("BINSHIFT_E2E_GUIDES", raising=False)
    assert "BINSHIFT_E2E_GUIDES" in story.spared(SimpleNamespace(own=False))
