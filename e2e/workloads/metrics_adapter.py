"""What makes a driver's gauge an External metric in the stories: a pod, registered as the API service of external metrics.

It stands in for Prometheus with prometheus-adapter, and reads the gauge from the driver. The HPA controller cannot see a difference.
"""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

from kube import Kube, until
from workloads.minimal import NAME, SAFE, SAFE_POD, WATCHER

ADAPTER = "metrics-adapter"
API_SERVICE = "v1beta1.external.metrics.k8s.io"
PORT = 6443
LABELS = {"app": ADAPTER}


def certificate(kube: Kube, folder: Path) -> tuple[str, str]:
    """Certificate and key of the adapter's service, in base64; the certificate is its own authority."""
    name = f"{ADAPTER}.{kube.namespace}.svc"
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    subject = ["-subj", f"/CN={ADAPTER}", "-addext", f"subjectAltName=DNS:{name}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *subject]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    encoded = [base64.b64encode((folder / each).read_bytes()).decode() for each in ("certificate", "key")]
    return encoded[0], encoded[1]


def pod(kube: Kube, image: str, metric: str) -> dict[str, Any]:
    """The server; its scripts are the watcher's."""
    arguments = [kube.namespace, NAME, metric, "/tls/tls.crt", "/tls/tls.key"]
    container = {
        "name": "adapter",
        "image": image,
        "command": ["/usr/bin/tini", "--", "python", "/scripts/external_metrics.py", *arguments],
        "securityContext": SAFE,
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 2},
        "volumeMounts": [{"name": "scripts", "mountPath": "/scripts"}, {"name": "tls", "mountPath": "/tls"}],
    }
    scripts = {"name": "scripts", "configMap": {"name": WATCHER}}
    spec = {
        "containers": [container],
        "volumes": [scripts, {"name": "tls", "secret": {"secretName": ADAPTER}}],
        "securityContext": SAFE_POD,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ADAPTER, "labels": LABELS}, "spec": spec}


def registration(kube: Kube, authority: str) -> dict[str, Any]:
    """The API service."""
    version, _, group = API_SERVICE.partition(".")
    service = {"namespace": kube.namespace, "name": ADAPTER, "port": PORT}
    spec = {"group": group, "version": version, "service": service, "caBundle": authority}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": API_SERVICE},
        "spec": spec | {"groupPriorityMinimum": 100, "versionPriority": 100},
    }


def objects(kube: Kube, image: str, metric: str, folder: Path) -> list[dict[str, Any]]:
    """All that it takes; ``folder``: for the certificate."""
    cert, key = certificate(kube, folder)
    secret = {"type": "kubernetes.io/tls", "data": {"tls.crt": cert, "tls.key": key}}
    service = {"selector": LABELS, "ports": [{"port": PORT}]}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ADAPTER}, **secret},
        pod(kube, image, metric),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": ADAPTER}, "spec": service},
        registration(kube, cert),
    ]


def await_available(kube: Kube) -> None:
    """Until the API server has reached it."""

    def is_available() -> bool:
        conditions = kube.get("apiservice", API_SERVICE)["status"].get("conditions", [])
        return any((each["type"], each["status"]) == ("Available", "True") for each in conditions)

    until("the API of external metrics", 120, is_available)
