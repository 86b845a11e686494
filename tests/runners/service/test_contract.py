"""The description and the service agree: generated requests, good and bad, against the real server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, settings

from runners.service.bodies import SelectIn
from tests.runners.service.serving import TOKEN, Running, running

EXAMPLES = 20
"""Of each operation, good and as many bad ones."""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("home"), token=TOKEN, debug=True, max_sessions=4) as service:
        yield service


def described(one: Running) -> dict[str, Any]:
    answer = httpx.get(f"{one.url}/openapi.json", headers={"authorization": f"Bearer {TOKEN}"})
    found: dict[str, Any] = answer.json()
    return found


def test_the_description_is_whole_and_its_examples_work(one: Running) -> None:
    whole = described(one)
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            assert {"401", "403", "413", "421", "422", "500"} <= operation["responses"].keys(), path
            assert operation["description"]
            if method == "post" and path != "/reset":
                name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
                assert name in whole["components"]["schemas"]
    (example,) = whole["components"]["schemas"]["SelectIn"]["examples"]
    answer = httpx.post(f"{one.url}/select", json=example, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.json()["selected"] == ["m2", "m3"]
    assert SelectIn.model_validate_json(json.dumps(example))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_generated_requests(one: Running, caplog: pytest.LogCaptureFixture) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="NO SCHEMATHESIS: it is not installed")
    import requests
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    whole = described(one)
    del whole["paths"]["/v1/sessions/{name}/events"]  # a stream without end
    schema = schemathesis.openapi.from_dict(whole)
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
    asked = 0

    def check(case: Any) -> None:
        nonlocal asked
        bearer = {"authorization": f"Bearer {TOKEN}"}
        try:
            answer = case.call(base_url=one.url, headers=bearer, timeout=30)
        except requests.RequestException:  # closed on a body that nobody reads, the answer is lost at times
            answer = case.call(base_url=one.url, headers=bearer, timeout=30)
        assert "Traceback" not in answer.text
        case.validate_response(answer, checks=checks)
        asked += 1

    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in schemathesis.GenerationMode:
            run = operation.as_strategy(generation_mode=mode)
            _given(run, check, EXAMPLES)
    assert asked > 10 * EXAMPLES
    assert not [record for record in caplog.records if record.exc_info], "no request makes the program fail"


def _given(strategy: Any, check: Any, examples: int) -> None:
    from hypothesis import given
    from hypothesis.errors import Unsatisfiable

    limits = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @limits
    @given(strategy)
    def generated(case: Any) -> None:
        check(case)

    with contextlib.suppress(Unsatisfiable):  # an operation without a body cannot be asked wrongly
        generated()
