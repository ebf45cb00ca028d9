"""One renderer for each protocol, whoever refuses: the table of addresses is the only place that knows the shapes."""

import json

import pytest

from demur.serve.contract.batching import Overloaded
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.problems import path_of, rendered

REFUSED = InvalidRequest("group: too long")


@pytest.mark.parametrize(
    ("path", "status", "content"),
    [
        ("/v1/predict", 422, {"error": {"kind": "InvalidRequest", "message": "group: too long"}}),
        ("/v1/cases/next", 422, {"error": {"kind": "InvalidRequest", "message": "group: too long"}}),
        ("/v2/models/digits/infer", 400, {"error": "group: too long"}),
        *(
            (
                path,
                400,
                {
                    "error": {
                        "message": "group: too long",
                        "type": "invalid_request_error",
                        "param": "group",
                        "code": "InvalidRequest",
                    }
                },
            )
            for path in ("/v1/chat/completions", "/v1/models/chat")
        ),
    ],
)
def test_each_protocol_has_its_own_shape(path, status, content):
    problem = rendered(REFUSED, path)
    assert (problem.status, json.loads(problem.body), problem.headers) == (status, content, ())


@pytest.mark.parametrize("path", ["/v1/predict", "/v2/models/digits/infer", "/v1/chat/completions"])
def test_what_passes_says_in_each_when_to_try_again(path):
    ((name, seconds),) = rendered(Overloaded("later"), path).headers
    assert name == b"retry-after"
    assert int(seconds) >= 1


@pytest.mark.parametrize(
    ("path", "root", "below"),
    [("/review/v1/cases", "/review", "/v1/cases"), ("/review", "/review", "/"), ("/reviews", "/review", "/reviews")],
)
def test_the_prefix_of_the_application_is_left_out(path, root, below):
    assert path_of({"path": path, "root_path": root}) == below
