"""What `/openapi.json` says, held against the server: requests made of it, and their answers."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bench.server import Server
from realtime.rest.document import openapi_document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
schema = schemathesis.openapi.from_dict(openapi_document())


@pytest.fixture(scope="module")
def url(scripted_server: Server) -> str:
    return scripted_server.url


@schema.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_made_of_the_document_is_a_fault(case: Any, url: str) -> None:
    case.call_and_validate(base_url=url, checks=CHECKS)


def test_the_document_is_served_and_names_all_routes(url: str) -> None:
    served = httpx.get(f"{url}/openapi.json").json()
    assert served == openapi_document()
    assert set(served["paths"]) == {
        "/v1/models",
        "/v1/models/{model}",
        "/v1/chat/completions",
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/audio/watermark",
    }
    fields = served["components"]["schemas"]["SpeechRequest"]["properties"]
    assert {"input", "voice", "speed", "latency_first"} <= set(fields)


def test_every_answer_has_an_id_and_sdks_tell_it(url: str, client: openai.OpenAI) -> None:
    ids = {httpx.get(f"{url}/health").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("unheard-of")
    assert (refused.value.request_id or "").startswith("req_")
