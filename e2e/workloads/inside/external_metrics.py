"""The API of external metrics, served from the metrics of one driver: what prometheus-adapter does with a Prometheus in between.

    external_metrics.py NAMESPACE DATAFLOW METRIC CERTIFICATE KEY

A metric that the driver does not have (yet) is not found, as an adapter has it.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = "external.metrics.k8s.io/v1beta1"
PORT = 6443
NAMESPACE, DATAFLOW, METRIC, CERTIFICATE, KEY = sys.argv[1:] if __name__ == "__main__" else [""] * 5


def value() -> str:
    """The metric's value; empty without one."""
    try:
        with urllib.request.urlopen(f"http://{DATAFLOW}-driver:7401/metrics", timeout=5) as answer:
            found = re.search(rf"^{METRIC}(?:{{[^}}]*}})? (\S+)$", answer.read().decode(), re.MULTILINE)
    except OSError:
        return ""
    return "" if found is None else str(int(float(found[1])))


def answer(path: str, selector: str) -> dict[str, Any] | None:
    """The object at a path; None if there is none."""
    if path == f"/apis/{VERSION}":
        resource = {"name": METRIC, "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": VERSION, "resources": [resource]}
    if path != f"/apis/{VERSION}/namespaces/{NAMESPACE}/{METRIC}" or selector != f"dataflow={DATAFLOW}":
        return None
    found = value()
    if not found:
        return None
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    item = {"metricName": METRIC, "metricLabels": {"dataflow": DATAFLOW}, "timestamp": at, "value": found}
    return {"kind": "ExternalMetricValueList", "apiVersion": VERSION, "metadata": {}, "items": [item]}


class Handler(BaseHTTPRequestHandler):
    """Answers the API server."""

    def do_GET(self) -> None:
        """One object, or that there is none."""
        url = urllib.parse.urlsplit(self.path)
        found = answer(url.path.rstrip("/"), urllib.parse.parse_qs(url.query).get("labelSelector", [""])[0])
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        body = json.dumps(found or status).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("", PORT), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
