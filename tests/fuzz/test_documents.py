"""Requests drawn from the OpenAPI documents, such as fit them and such as do not: nothing ends in a 500, and what comes
back is what the document says."""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from tests.fuzz.served import mounted, served

pytestmark = pytest.mark.slow

INPUTS = int(os.environ.get("DEMUR_FUZZ_INPUTS", "1000"))
"""In all, here and at the doors. `make test-fuzz` tries 50,000."""

SHARE = 0.04
"""Of them, drawn from documents."""

OPERATIONS = 37
"""About as many there are in the three documents."""

CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]

ALSO = {404, 405, 431}
"""What any address can answer, whatever its document says."""


@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")  # other threads use it meanwhile
@pytest.mark.parametrize("root", ["", "/review", "/audit"])
def test_nothing_drawn_from_a_document_ends_in_a_500(database, root):
    apps, known = served(database)
    schema = schemathesis.openapi.from_asgi(f"{root}/openapi.json" if not root else "/openapi.json", apps[root])
    tried = dict.fromkeys(("2xx", "4xx", "5xx"), 0)
    ids = st.sampled_from([str(one) for one in (*known.records, *known.reports)])
    with TestClient(mounted(apps), raise_server_exceptions=False) as client:
        operations = [result.ok() for result in schema.get_all_operations()]
        assert operations
        for operation in operations:

            @settings(
                max_examples=max(2, int(INPUTS * SHARE / OPERATIONS)),
                deadline=None,
                database=None,
                derandomize=INPUTS < 10_000,  # the same in every run of CI, others when they are many
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(), known_id=ids, aim=st.booleans())
            def ask(case, known_id, aim):
                if aim and "id" in (case.path_parameters or {}):
                    case.path_parameters["id"] = known_id
                if "wait" in (case.query or {}):
                    case.query["wait"] = 0  # nobody waits for what never comes
                told = case.as_transport_kwargs(base_url=f"http://testserver{root}")
                told.pop("cookies", None)
                if isinstance(told.get("data"), bytes):
                    told["content"] = told.pop("data")
                headers = {**told.pop("headers", {}), "X-Demur-Reviewer": "ada"}
                headers = {name: value for name, value in headers.items() if value.isascii()}
                sent = client.build_request(headers=headers, **told)
                answer = client.send(sent)
                tried[f"{answer.status_code // 100}xx"] = tried.get(f"{answer.status_code // 100}xx", 0) + 1
                assert answer.status_code != 500, (case.method, str(sent.url), told)
                assert answer.status_code < 500 or "retry-after" in answer.headers or "healthz" in case.path
                if answer.status_code not in ALSO:
                    case.validate_response(answer, checks=CHECKS)

            ask()
    print(f"{root or '/'}: {sum(tried.values()):,} inputs at {len(operations)} operations, {tried}")
