"""Keeps the guides true: every command parses, every name exists, and every reason a condition can have is in the one about trouble."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from guide_grammar import CONTAINERS, problems, value_at
from guide_resources import RESOURCES, SNAPSHOT, field_at
from guides import FOLDER, GUIDES, ROOT, commands, lines, spans, tables, text
from prometheus_client.registry import CollectorRegistry
from test_crd import SPEC, closed

from binshift.metrics import Observed, RuntimeMetrics
from binshift_operator.metrics import OperatorMetrics
from binshift_operator.model.observed_runtime import RunState
from binshift_operator.model.reasons import DegradedReason, ProgressingReason, SettledReason
from binshift_operator.status import conditions

TROUBLE = tables(text("troubleshoot.md"))
OTHER_TOOLS = {"chmod", "docker", "kind", "pip", "scripts/s3-jars.sh"}


def reasons(heading: str) -> list[str]:
    """The first column of the table below a heading that begins so."""
    (rows,) = (rows for name, rows in TROUBLE.items() if name.startswith(heading))
    return [row[0].strip("`") for row in rows if row[0] != "reason"]


@pytest.mark.parametrize("guide", GUIDES)
def test_commands_of(guide: str) -> None:
    """Every command of a guide would be understood, and what it names exists."""
    found = [(problem, " ".join(arguments)) for arguments in commands(text(guide)) for problem in problems(arguments)]
    assert found == []


@pytest.mark.parametrize("guide", GUIDES)
def test_tools_of(guide: str) -> None:
    """Guides use only tools that are checked, and other tools that are listed here."""
    known = {"kubectl", "helm", "binshift", "make"} | OTHER_TOOLS
    assert {line.split()[0] for line in lines(text(guide))} <= known


@pytest.mark.parametrize("guide", GUIDES)
def test_names_of(guide: str) -> None:
    """Fields, values of the chart and metrics that are named in passing exist."""
    unknown = [span for span in spans(text(guide)) if not exists(span)]
    assert unknown == []


def exists(span: str) -> bool:
    """Whether inline code exists, if it resembles a field, a value or a metric."""
    top, dotted = span.partition(".")[0], re.fullmatch(r"[a-zA-Z]\w*(\.\w+)+", span)
    if re.fullmatch(r"binshift_\w+", span):
        return span in METRICS
    if dotted and top in ("spec", "status"):
        return field_at(span) is not None or field_at(span, SNAPSHOT) is not None
    if dotted and top in SPEC:
        return field_at(f"spec.{span}") is not None
    if dotted and top in ("operator", "monitoring", "image"):
        return value_at(span) is not None
    return True


def metrics() -> set[str]:
    """Names of all metrics, of runtime and operator."""
    registry = CollectorRegistry()
    OperatorMetrics(registry)
    families = [*registry.collect(), *RuntimeMetrics(CollectorRegistry(), list, Observed).describe()]
    return {name for each in families for name in (each.name, f"{each.name}_total")}


METRICS = metrics()


def test_every_problem_is_documented() -> None:
    """Degraded's reasons are all there, in the order in which they press, and none besides."""
    assert reasons("Degraded") == [each.value for each in DegradedReason]


def test_every_awaited_reason_is_documented() -> None:
    """Progressing's reasons are all there, and none besides."""
    assert reasons("Progressing") == [
        *(each.value for each in ProgressingReason),
        *(each.value for each in SettledReason),
    ]


def test_every_reason_of_ready_is_documented() -> None:
    """Ready's reasons are all there, and none besides: those in its code, and the states of a program that does not run."""
    tree = ast.parse(Path(conditions.__file__).read_text(encoding="utf-8"))
    judging = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in ("ready", "_ready_runtime")
    ]
    texts = (node.value for each in judging for node in ast.walk(each) if isinstance(node, ast.Constant))
    documented = {found for found in texts if isinstance(found, str) and re.fullmatch(r"([A-Z][a-z]+)+", found)}
    states = {each.value for each in RunState} - {RunState.RUNNING.value}
    assert set(reasons("Ready")) == documented | states | {DegradedReason.EPOCH_HANGS.value}
    assert len(reasons("Ready")) == len(set(reasons("Ready")))


def test_readme_leads_to_every_guide() -> None:
    """README.md names each guide."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [guide for guide in GUIDES if f"docs/guides/{guide}" not in readme] == []


TYPED = {line for guide in ("install.md", "first-dataflow.md", "rescale.md") for line in lines(text(guide))}
"""A story types these lines on a real cluster (`e2e/test_guides.py`)."""


@pytest.mark.parametrize("name", ["README.md", "runtime/examples/minimal/README.md", "docs/building-images.md"])
def test_line_of_another_document_is_typed_too(name: str) -> None:
    """What other documents have of this way is written as in the guides; only a watch, which never ends, is not typed."""
    found = [re.sub(r"\s+#.*", "", line) for line in lines((ROOT / name).read_text(encoding="utf-8"))]
    ours = [line for line in found if line.split()[0] in {"docker", "helm", "kind", "kubectl", "scripts/s3-jars.sh"}]
    assert ours
    assert [line for line in ours if line not in TYPED and "--watch" not in line and "--build-arg" not in line] == []


def test_image_that_the_guide_builds_is_the_charts() -> None:
    """The chart, installed without values, uses the image that the guide builds and loads."""
    chart = ROOT / "charts" / "binshift"
    values, about = (
        yaml.safe_load((chart / name).read_text(encoding="utf-8")) for name in ("values.yaml", "Chart.yaml")
    )
    name = f"{values['image']['repository']}:{values['image']['tag'] or about['appVersion']}"
    assert f"docker build --target operator -t {name} ." in TYPED
    assert f"kind load docker-image {name}" in TYPED


def test_pod_that_verifies_is_restricted() -> None:
    """The manifest of the guide about recovery is one pod that may run where only restricted pods may."""
    pod = yaml.safe_load((FOLDER / "verify.yaml").read_text(encoding="utf-8"))
    (container,) = pod["spec"]["containers"]
    assert problems(container["args"]) == []
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["name"] not in CONTAINERS


@pytest.mark.parametrize("name", ["snapshot.yaml", "clone.yaml"])
def test_manifests_of_snapshots_are_accepted(name: str) -> None:
    """The manifests of the guide about snapshots are valid, and the clone begins with the snapshot."""
    made = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    jsonschema.validate(made, closed(RESOURCES[made["kind"].lower()].schema), cls=jsonschema.Draft4Validator)
    snapshot = yaml.safe_load((FOLDER / "snapshot.yaml").read_text(encoding="utf-8"))
    named = made["spec"].get("checkpoint", {"restoreFrom": {"snapshot": made["metadata"]["name"]}})
    assert named["restoreFrom"]["snapshot"] == snapshot["metadata"]["name"]


WRONG = [
    "kubectl scael sdf/minimal --replicas=3",
    "kubectl scale sdf/minimal --replica=3",
    "kubectl get sdfss",
    "kubectl get sdfs first -o jsonpath='{.status.replicas}'",
    "kubectl wait sdfs/first --for=condition=Ready",
    "kubectl label sdfs/first binshift.dev/weekly-",
    "kubectl get sdf minimal -o jsonpath='{.status.epochs}'",
    "kubectl wait sdf/minimal --for=condition=Redy",
    "kubectl wait sdf/minimal --for=jsonpath='{.status.phase}'=Suspend",
    'kubectl patch sdf/minimal --type=merge --patch \'{"spec":{"migration":{"strategy":"Fast"}}}\'',
    'kubectl patch sdf/minimal --type=merge --patch \'{"spec":{"replica":2}}\'',
    "kubectl explain sdf.spec.migrations",
    "kubectl apply -f runtime/examples/none.yaml",
    "kubectl logs minimal-driver-0 -c program",
    "kubectl logs minimal-drivers-0",
    "kubectl get pods --selector=app=minimal",
    "kubectl exec minimal-driver-0 -c driver -- binshift log check /x",
    "helm install binshift charts/binshift --set image.name=x",
    "helm upgrade binshift charts/binshift --set operator.workers=none",
    "helm upgrade binshift charts/binshit",
    "binshift scale 4 --await",
    "binshift rescale 4",
]


@pytest.mark.parametrize("line", WRONG)
def test_wrong_command_is_found(line: str) -> None:
    """A command with a mistake in it is reported."""
    (arguments,) = commands(f"```sh\n{line}\n```\n")
    assert problems(arguments) != []


@pytest.mark.parametrize("span", ["spec.replica", "migration.timeouts", "operator.limits.none", "binshift_epochs_none"])
def test_wrong_name_is_found(span: str) -> None:
    """A field, a value or a metric that does not exist is reported."""
    assert not exists(span)
