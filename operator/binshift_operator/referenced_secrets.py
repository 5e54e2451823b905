"""One hash of the Secrets that a dataflow references in its environment variables: a pod keeps the values that it was created with.

It is computed only with ``restartOn: SecretChange``. A Secret that does not exist or cannot be read changes nothing: one that is being
replaced is absent for a moment, and must not stop a stream. The last hash, from the memo or from the pods, is used meanwhile. Secrets
that are mounted as files are not included, as the kubelet updates these. The hash is keyed, so that the annotation does not disclose a
short password.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from binshift_operator.errors import Forbidden
from binshift_operator.kube import Kube
from binshift_operator.memo import Memo
from binshift_operator.model.names import ANNOTATION_SPEC, DRIVER, KEYS, LABEL_COMPONENT, LABEL_UID, DataflowKey
from binshift_operator.model.specification import Dataflow

log = logging.getLogger(__name__)


def with_secrets_hash(dataflow: Dataflow, keys: Mapping[str, str] | None, kube: Kube, memo: Memo) -> Dataflow:
    """The dataflow with the hash of its Secrets, if it restarts when they change, and its own keys exist.

    Raises:
        OperatorError: the API server does not answer.
    """
    if keys is None or not dataflow.restarts_on_secret_change:
        return dataflow
    found = {name: _content(kube, dataflow.key.namespace, name) for name in secret_names(dataflow)}
    if any(each is None for each in found.values()):
        memo.secrets_hash = memo.secrets_hash or _hash_of_pods(kube, dataflow.key)
        if memo.secrets_hash:
            return replace(dataflow, secrets_hash=memo.secrets_hash)
    key = "\0".join(keys[name] for name in KEYS).encode()
    memo.secrets_hash = hmac.new(key, json.dumps(found, sort_keys=True).encode(), hashlib.sha256).hexdigest()[:16]
    return replace(dataflow, secrets_hash=memo.secrets_hash)


def _hash_of_pods(kube: Kube, key: DataflowKey) -> str:
    """The hash of the newest pod, preferably the driver's; empty if none has one."""
    pods = [each["metadata"] for each in kube.list("Pod", key.namespace, f"{LABEL_UID}={key.uid}")]
    pods.sort(key=lambda meta: (meta["labels"].get(LABEL_COMPONENT) == DRIVER, str(meta.get("creationTimestamp"))))
    hashes = [(meta.get("annotations") or {}).get(ANNOTATION_SPEC, "").partition("-")[2] for meta in pods]
    return next(filter(None, reversed(hashes)), "")


def secret_names(dataflow: Dataflow) -> tuple[str, ...]:
    """The names of the Secrets that become variables of its pods."""
    parts = [dataflow.raw.get(name) for name in ("application", "driver", "executor")]
    return tuple(sorted({*filter(None, [dataflow.checkpoint.credentials_secret]), *_references(parts)}))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    if isinstance(value, Mapping):
        for name, each in value.items():
            if (
                name in ("secretKeyRef", "secretRef")
                and isinstance(each, Mapping)
                and isinstance(each.get("name"), str)
            ):
                yield each["name"]
            else:
                yield from _references(each)


def _content(kube: Kube, namespace: str, name: str) -> Mapping[str, str] | None:
    try:
        found = kube.get("Secret", namespace, name)
    except Forbidden as error:
        log.warning("secret %s/%s cannot be read: %s", namespace, name, error)
        return None
    return None if found is None else found.get("data") or {}
