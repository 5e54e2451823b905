"""Random requests to the control API: no response is a 5xx, each is as documented, and strangers change nothing.

Schemathesis generates the requests from the API's own OpenAPI document, valid ones and invalid ones.
"""

from __future__ import annotations

from typing import Any

import schemathesis
from control_fakes import ADMIN, DRAIN, TOKENS, FakeService
from hypothesis import HealthCheck, settings
from prometheus_client.registry import CollectorRegistry
from schemathesis import Case

from binshift.control.app import control_app
from binshift.control.service_holder import ServiceHolder
from binshift.metrics import RuntimeMetrics

SERVICE = FakeService()
REGISTRY = CollectorRegistry()
RuntimeMetrics(REGISTRY, SERVICE.epochs, SERVICE.observed)
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", control_app(ServiceHolder(SERVICE), TOKENS, REGISTRY))
EXAMPLES = settings(max_examples=15, suppress_health_check=list(HealthCheck))


@SCHEMA.parametrize()
@EXAMPLES
def test_every_answer_is_as_documented(case: Case[Any]) -> None:
    """With the admin's token, status, type and form of each response are those of the document, and none is a 5xx."""
    case.call_and_validate(headers={"Authorization": f"Bearer {ADMIN}"})


@SCHEMA.parametrize()
@EXAMPLES
def test_strangers_change_nothing(case: Case[Any]) -> None:
    """Without a token, or with the drain token on other calls, no request reaches the query's writes."""
    drains = (case.method, case.operation.path) in {
        ("POST", "/v1/workers/{worker}/drain"),
        ("GET", "/v1/migrations/{id}"),
    }
    before = len(SERVICE.writes)
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {DRAIN}"}):
        if drains and DRAIN in str(headers):
            continue
        answer = case.call(headers=headers)
        assert answer.status_code < 500
        if case.operation.path.startswith("/v1/"):
            assert answer.status_code in {401, 403}
    assert len(SERVICE.writes) == before
