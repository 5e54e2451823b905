"""A user who edits a dataflow's spec in the simulated cluster, as far as the API server would accept it; and the required result."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any

from crd_cases import BASE
from sim_admission import admitted
from sim_checks import drivers_of
from sim_cluster import NAME, NS, SDF
from sim_standby import StandbyCluster
from spec_edits import Edit

from binshift_operator.children.comparison import ANNOTATION_APPLIED
from binshift_operator.model.names import (
    ANNOTATION_DATAFLOW,
    ANNOTATION_KEYS,
    ANNOTATION_SPEC,
    SNAPSHOT_KIND,
    Child,
)

TICKS_MAX = 150
NOT_IN_PLACE = ("InvalidSpec",)
"""Why a spec that the API server has taken is not carried out."""
SECRET_DATA: Mapping[str, str] = dict.fromkeys(("tls.crt", "tls.key", "ca.crt"), "eA==")
"""Of any of them: one name can be given for both."""
OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def lent_secrets(spec: Mapping[str, Any]) -> list[str]:
    """The Secrets that a spec names: the one with credentials, and the one with a certificate."""
    found = [(spec.get("checkpoint") or {}).get("credentialsSecret"), (spec.get("encryption") or {}).get("secretName")]
    return [each for each in found if each]


def kept(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A whole object with this spec as the API server keeps it; the spec is valid."""
    made, wrong = admitted({**copy.deepcopy(BASE), "spec": dict(spec)})
    assert wrong == []
    return made


class Editor:
    """One dataflow, from its making to its end.

    Attributes:
        cluster: where it is.
        refused: how many edits were.
    """

    def __init__(self, spec: Mapping[str, Any], cluster: StandbyCluster | None = None) -> None:
        self.refused = 0
        self.cluster = StandbyCluster() if cluster is None else cluster
        if cluster is None:
            claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": NAME, "namespace": NS}}
            self.cluster.server.put("PersistentVolumeClaim", {**claim, "spec": {"accessModes": ["ReadWriteMany"]}})
            made = kept(spec)
            made["metadata"]["namespace"] = NS
            self.lend(made["spec"])
            self.cluster.server.put("StreamingDataflow", made)

    def fork(self) -> Editor:
        """Another one in the same state."""
        return Editor({}, self.cluster.fork())

    @property
    def found(self) -> dict[str, Any]:
        """The resource."""
        found = self.cluster.server.objects.get(SDF)
        assert found is not None
        return found

    def lend(self, spec: Mapping[str, Any]) -> None:
        """The Secrets that a spec names, its ServiceAccount, and the snapshot that it begins with."""
        named = [("ServiceAccount", spec.get("serviceAccountName")), *(("Secret", each) for each in lent_secrets(spec))]
        for kind, name in named:
            if name and (kind, NS, name) not in self.cluster.server.objects:
                meta = {"name": name, "namespace": NS}
                self.cluster.server.put(kind, {"kind": kind, "metadata": meta, "data": dict(SECRET_DATA)})

        snapshot = (spec["checkpoint"].get("restoreFrom") or {}).get("snapshot")
        if snapshot and (SNAPSHOT_KIND, NS, snapshot) not in self.cluster.server.objects:
            meta = {"name": snapshot, "namespace": NS, "creationTimestamp": "2023-11-14T22:13:20Z"}
            found = {"metadata": meta, "spec": {"dataflow": NAME}, "status": complete_status(snapshot)}
            self.cluster.server.put(SNAPSHOT_KIND, {"kind": SNAPSHOT_KIND, **found})

    def edit(self, edit: Edit) -> bool:
        """Whether the API server lets it pass; what it refuses changes nothing."""
        return self.replace(edit.of(self.found["spec"]))

    def replace(self, spec: Mapping[str, Any]) -> bool:
        """Put another spec in place of the whole, as `kubectl replace` does."""
        made, wrong = admitted({**self.found, "spec": dict(spec)}, self.found)
        if wrong:
            self.refused += 1
            return False
        if made["spec"] != self.found["spec"]:
            self.lend(made["spec"])
            self.found["spec"] = {}
            self.cluster.server.edit(*SDF, made["spec"])
        return True

    def settle(self) -> str:
        """Until the newest edit is in place, or an error is reported; its reason, empty if the edit is in place."""
        for _ in range(TICKS_MAX):
            status, generation = self.cluster.status, self.found["metadata"]["generation"]
            degraded = next((each for each in status.get("conditions", ()) if each["type"] == "Degraded"), None)
            if status.get("observedGeneration") == generation and degraded is not None:
                if status.get("settledGeneration") == generation and degraded["status"] == "False":
                    return ""
                if degraded["reason"] in NOT_IN_PLACE:
                    return str(degraded["reason"])
            self.cluster.run(1)
        raise AssertionError(
            f"generation {self.found['metadata']['generation']} is not in place: {self.cluster.status}"
        )

    def children(self) -> dict[str, Any]:
        """Everything that was made for it, but for names and secrets that are drawn, and what is no longer used: an account, a budget."""
        objects = self.cluster.server.objects
        children = {
            f"{kind} {name}": each
            for (kind, _, name), each in objects.items()
            if kind in {child.kind for child in Child}
        }
        annotations = self.driver_template(children)["metadata"]["annotations"]
        uid = self.found["metadata"]["uid"]
        drawn = {uid: "OWNER", annotations[ANNOTATION_KEYS]: "KEYS"}
        if secrets := annotations[ANNOTATION_SPEC].partition("-")[2]:
            drawn[secrets] = "SECRETS"
        if self.found["spec"].get("serviceAccountName"):
            children.pop(f"ServiceAccount {NAME}", None)
        if drivers_of(self.found) == 1:
            children.pop(f"PodDisruptionBudget {NAME}-driver", None)
        owners = {key: each["metadata"].get("ownerReferences") or () for key, each in children.items()}
        ours = {key: children[key] for key, found in owners.items() if any(owner["uid"] == uid for owner in found)}
        return {key: essence(each, drawn) for key, each in ours.items()}

    def driver_template(self, children: Mapping[str, Any]) -> dict[str, Any]:
        """The template of the driver's pod."""
        template: dict[str, Any] = children[f"StatefulSet {NAME}-driver"]["spec"]["template"]
        return template

    def requested_objects(self) -> dict[str, Any]:
        """The last request to the runtime, without owner and generation."""
        target = dict(self.cluster.log.target or {})
        return {name: each for name, each in target.items() if name not in ("owner", "generation")}

    def old_pods(self) -> list[str]:
        """Pods that are not as their templates now are."""
        found = []
        for component in ("driver", "executor"):
            template = self.cluster.server.objects[("StatefulSet", NS, f"{NAME}-{component}")]["spec"]["template"]
            for pod in self.cluster.pods(component):
                meta, wanted = pod["metadata"], template["metadata"]
                differ = {
                    key
                    for key, value in wanted["annotations"].items()
                    if meta["annotations"].get(key) != value
                    # A driver's pod keeps that of the executor class with which it was created.
                    and not (component == "driver" and key == ANNOTATION_SPEC)
                }
                if pod["spec"] != template["spec"] or meta["labels"] != wanted["labels"] or differ:
                    found.append(pod["metadata"]["name"])
        return found

    def delete(self) -> None:
        """A user deletes it; time passes."""
        self.cluster.server.remove(SDF)
        self.cluster.run(8)

    def left(self) -> list[str]:
        """The remaining objects that are not the user's."""
        theirs = {("PersistentVolumeClaim", NAME)}
        objects = self.cluster.server.objects
        theirs |= {
            (kind, name)
            for (kind, _, name), each in objects.items()
            if kind == "ServiceAccount" and not each["metadata"].get("ownerReferences")
        }
        found = {(kind, name) for kind, _, name in objects if kind not in ("Event", "Secret", SNAPSHOT_KIND)}
        keys = {(kind, name) for kind, _, name in self.cluster.server.objects if name == f"{NAME}-keys"}
        return sorted(name for _, name in (found | keys) - theirs)


def complete_status(name: str) -> dict[str, Any]:
    """The status of a snapshot that is complete."""
    return {"phase": "Complete", "epoch": 9, "location": f"s3a://backups/{name}"}


def outdated(pods: Iterable[Mapping[str, Any]], wanted: Mapping[str, str]) -> list[str]:
    """Names of pods that were made for another spec than these annotations; a driver's may be of another executor class."""
    found = ((each["metadata"], "-driver-" in each["metadata"]["name"]) for each in pods)
    keyed = ((meta, ANNOTATION_DATAFLOW if is_driver else ANNOTATION_SPEC) for meta, is_driver in found)
    return [meta["name"] for meta, key in keyed if meta["annotations"][key] != wanted[key]]


def essence(found: Mapping[str, Any], drawn: Mapping[str, str]) -> Any:
    """An object without the server's fields and the hash of its application, and with fixed values for random ones."""
    meta = {name: each for name, each in found["metadata"].items() if name not in OWN}
    meta["annotations"] = {k: v for k, v in (meta.get("annotations") or {}).items() if k != ANNOTATION_APPLIED}
    content = {name: each for name, each in found.items() if name not in ("status", "metadata", "data")}
    data = found.get("data") if found["kind"] != "Secret" else sorted(found["data"])
    text = json.dumps({**content, "metadata": meta, "data": data}, sort_keys=True)
    for word, other in drawn.items():
        text = text.replace(word, other)
    return json.loads(text)
