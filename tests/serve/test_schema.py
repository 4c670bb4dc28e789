"""schemathesis asks what the schema allows and what it forbids: every answer is as promised."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks

_CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


def ask_all(server, mode, examples):
    """Asks every operation so many times."""
    server.ready()
    server.explained("A film for the schema.", budget=40)
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/api/openapi.json")
    asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case):
            nonlocal asked
            asked += 1
            if isinstance(case.body, dict) and asked % 2 and "model" in case.body:
                case.body["model"] = "embedded"
            case.call_and_validate(checks=_CHECKS)

        if mode is GenerationMode.POSITIVE or operation.body or operation.query:
            ask()
    return asked


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_api_keeps_its_promises(server, mode):
    assert ask_all(server, mode, 5) > 20


@pytest.mark.bench
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_api_keeps_its_promises_for_long(server, mode):
    assert ask_all(server, mode, 300) > 1000
