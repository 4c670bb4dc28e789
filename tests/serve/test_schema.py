"""schemathesis asks whatever the schema allows, and more: every answer is as promised."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
    checks.negative_data_rejection,
]


@pytest.fixture
def api(server):
    server.ready()
    server.explained("A film for the schema.", budget=40)
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/api/openapi.json")


schema = schemathesis.pytest.from_fixture("api")
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True}


def ask(case):
    """Asks; half of the bodies name a model that is there."""
    if isinstance(case.body, dict) and len(str(case.body)) % 2:
        case.body["model"] = "embedded"
    case.call_and_validate(checks=_CHECKS)


@schema.parametrize()
@settings(max_examples=6, **QUIET)
def test_the_api_keeps_its_promises(case):
    ask(case)


@pytest.mark.bench
@schema.parametrize()
@settings(max_examples=300, **QUIET)
def test_the_api_keeps_its_promises_for_long(case):
    ask(case)
