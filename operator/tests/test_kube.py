"""Paging, and the rights in the chart."""

from __future__ import annotations

import json
from typing import Any

import yaml
from test_crd import ROOT

from binshift_operator import kube
from binshift_operator.kube import Kube


def test_long_lists_are_read_page_by_page() -> None:
    """A list continues at the server's token."""
    pages = [{"items": [{"n": 1}], "metadata": {"continue": "more"}}, {"items": [{"n": 2}], "metadata": {}}]
    queries = []

    def answer(method: str, path: str, query: Any, body: Any, content_type: str) -> tuple[int, bytes]:
        queries.append(dict(query))
        return 200, json.dumps(pages[len(queries) - 1]).encode()

    assert Kube(answer).list("Pod", "ns", "a=b") == [{"n": 1}, {"n": 2}]
    assert queries[1]["continue"] == "more"


USED = {
    "StreamingDataflow": {"get", "list", "watch"},
    "StreamingDataflowSnapshot": {"get", "list", "watch", "create", "delete"},
    "StatefulSet": {"get", "list", "watch", "create", "patch"},
    "Service": {"get", "create", "patch"},
    "ConfigMap": {"get", "create", "patch"},
    "ServiceAccount": {"get", "create", "patch"},
    "NetworkPolicy": {"get", "create", "patch"},
    "PodDisruptionBudget": {"get", "create", "patch"},
    "Secret": {"get", "create"},
    "Pod": {"list", "watch", "delete"},
    "PersistentVolumeClaim": {"get"},
    "Event": {"get", "list", "create", "patch"},
}


def test_rights_are_those_that_are_used() -> None:
    """The chart gives the operator the verbs it uses, and no other; a Secret can be neither listed nor changed."""
    text = (ROOT / "charts" / "binshift" / "templates" / "_names.tpl").read_text(encoding="utf-8")
    rules = yaml.safe_load(text.partition('{{- define "binshift.rules" -}}')[2].partition("{{- end }}")[0])
    given: dict[str, set[str]] = {}
    for rule in rules:
        for resource in rule["resources"]:
            given.setdefault(resource, set()).update(rule["verbs"])
    assert given.pop("streamingdataflows/status") == given.pop("streamingdataflowsnapshots/status") == {"patch"}
    assert given == {kube.PATHS[kind][1]: verbs for kind, verbs in USED.items()}
