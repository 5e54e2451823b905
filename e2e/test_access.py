"""Access control: the operator's rights, and what the namespace and the CRD refuse."""

from __future__ import annotations

import json

import pytest

from kube import Refused
from stage import MINIMAL_IMAGE, OPERATOR, Stage

RIGHTS_DENIED = [
    ("create", "pods/exec"),
    ("create", "pods"),
    ("delete", "persistentvolumeclaims"),
    ("delete", "namespaces"),
    ("update", "streamingdataflows.binshift.dev"),
    ("delete", "streamingdataflows.binshift.dev"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("create", "roles.rbac.authorization.k8s.io"),
    ("impersonate", "serviceaccounts"),
    ("create", "serviceaccounts/token"),
]


@pytest.mark.parametrize(("verb", "resource"), RIGHTS_DENIED, ids=lambda word: word.replace("/", "-"))
def test_operator_may_not(scene: Stage, verb: str, resource: str) -> None:
    """The API server denies the operator what it has no need of."""
    kind, _, subresource = resource.partition("/")
    arguments = ["auth", "can-i", verb, kind, f"--as=system:serviceaccount:{scene.system.namespace}:{OPERATOR}"]
    arguments += [f"--subresource={subresource}"] if subresource else []
    with pytest.raises(Refused):
        scene.kube(*arguments)


def test_dataflow_has_no_rights(scene: Stage) -> None:
    """A dataflow's own service account cannot even read pods, and no pod of it carries a token."""
    dataflow = scene.apply(image="localhost/no-such-image:1", imagePullPolicy="Never")
    dataflow.await_condition("Degraded", seconds=120)
    user = f"--as=system:serviceaccount:{scene.kube.namespace}:{dataflow.name}"
    with pytest.raises(Refused):
        scene.kube("auth", "can-i", "list", "pods", user)
    mounted = [volume for pod in dataflow.pods() for volume in pod["spec"]["volumes"] if "projected" in volume]
    assert dataflow.pods()
    assert mounted == []


def test_pods_have_to_be_restricted(scene: Stage) -> None:
    """The stories' namespaces do enforce the restricted standard, otherwise passing in them would prove nothing."""
    spec = {"containers": [{"name": "c", "image": MINIMAL_IMAGE}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "careless"}, "spec": spec}
    refusal = scene.kube.refused("apply", "--filename", "-", stdin=json.dumps(pod))
    assert "violates PodSecurity" in refusal
