"""Health and metrics over HTTP."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client.registry import CollectorRegistry

from binshift_operator.metrics import OperatorMetrics
from binshift_operator.probes import ProbeServer


def test_probes() -> None:
    """Health reports the problem, metrics are served, everything else is not."""
    registry = CollectorRegistry()
    OperatorMetrics(registry)
    server = ProbeServer(0, lambda: "", lambda: "not yet", registry)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        assert urllib.request.urlopen(f"{url}/healthz", timeout=5).status == 200
        assert b"binshift_operator_dataflows" in urllib.request.urlopen(f"{url}/metrics", timeout=5).read()
        for path, status in (("/readyz", 503), ("/secrets", 404)):
            with pytest.raises(urllib.error.HTTPError) as no:
                urllib.request.urlopen(url + path, timeout=5)
            assert no.value.code == status
    finally:
        server.stop()
