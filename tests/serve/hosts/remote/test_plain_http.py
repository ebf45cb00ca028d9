"""JSON of any shape: bodies that no input can break out of, and where numbers are found in replies."""

import json

import numpy as np
import pytest
from fastapi.responses import JSONResponse

from demur.serve.commands.remote_trial import try_remote
from demur.serve.contract.inputs import TextPair
from demur.serve.contract.model import ModelRequest
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_model
from tests.serve.hosts.remote.conftest import configured, run, why

HOSTILE = 'a", "admin": true, "b": "</script> {{ 7 * 7 }} $labels \\ \n'


def of_texts(server, reply, **more):
    server.instead = lambda body: JSONResponse(reply)
    return configured(server.url, protocol="http", **{"input": "text", "request": {"texts": "$inputs"}, **more})


@pytest.mark.parametrize(
    "request_body",
    [
        {"texts": "$inputs", "of": ["$labels", "$$labels"]},
        '{"texts": [{% for text in inputs %}{{ text }}{{ "," | safe if false }}{% endfor %}],'
        ' "of": [{{ labels | tojson }}, {{ "$labels" | safe }}]}',
    ],
)
def test_an_input_is_a_value_and_never_a_part_of_the_body(server, request_body):
    if isinstance(request_body, str):
        request_body = request_body.replace('{{ "," | safe if false }}', "")
    run(of_texts(server, {"predictions": [[0.5, 0.5]]}, request=request_body), [HOSTILE])
    assert server.asked == [{"texts": [HOSTILE], "of": [["malignant", "benign"], "$labels"]}]


REPLIES = {
    "a list for each input": ([[0.25, 0.75]], {}),
    "one number": ([0.75], {}),
    "objects": ([{"benign": 0.75, "malignant": 0.25}], {}),
    "entries, the most probable first": (
        [[{"label": "benign", "score": 0.75}, {"label": "malignant", "score": 0.25}]],
        {},
    ),
    "another order": ([[0.75, 0.25]], {"labels": ["benign", "malignant"]}),
    "logits": ([[0.0, float(np.log(3))]], {"gives": "logits"}),
}


@pytest.mark.parametrize(("found", "settings"), REPLIES.values(), ids=REPLIES)
def test_numbers_are_read_in_the_shapes_in_which_servers_give_them(server, found, settings):
    output = run(of_texts(server, {"predictions": found}, **settings), ["a text"])
    assert np.allclose(output.probabilities, [[0.25, 0.75]])


def test_labels_may_stand_beside_their_numbers(server):
    reply = {"labels": ["benign", "malignant"], "scores": [0.75, 0.25]}
    model = of_texts(
        server, reply, request={"text": "$input"}, takes_batches=False, output="scores", output_labels="labels"
    )
    output = run(model, ["one", "two"])
    assert np.allclose(output.probabilities, [[0.25, 0.75]] * 2)
    assert sorted(body["text"] for body in server.asked) == ["one", "two"]


BAD = {
    "nothing at the path": (
        {"results": 1},
        "'predictions' finds nothing in the reply, which is an object with 'results'",
    ),
    "a label too few": ({"predictions": [{"benign": 1.0}]}, "no number is for the label 'malignant'"),
    "entries without a score": ({"predictions": [[{"label": "benign"}]]}, "it should have a `label` and a `score`"),
    "an object": ({"predictions": {"benign": 1}}, "there is an object in the place of a list"),
    "a text": ({"predictions": [["0.5", "0.5"]]}, "something other than numbers"),
}


@pytest.mark.parametrize(("reply", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_found_holds_and_says_why(server, reply, message):
    assert message in why(run(of_texts(server, reply), ["a text"]))


MISTAKES = {
    "no inputs": ({"request": {"texts": "$labels"}}, "the inputs are not in it; write \\$inputs"),
    "a wrong name": ({"request": {"texts": "$input"}}, "did you mean `\\$inputs`"),
    "a template that is none": ({"request": "{% for"}, "the template cannot be read"),
    "a name that is not known": ({"request": '{"a": {{ inptus }}}'}, "did you mean `inputs`"),
    "quotes around a value": ({"request": '{"a": "{{ inputs }}"}'}, "put no quotes"),
    "code": ({"request": '{"a": {{ inputs.__class__.__mro__ }}}'}, "host.request"),
    "a path that is none": ({"output": "predictions["}, "is no JMESPath"),
    "no secret": ({"headers_env": {"Authorization": "NOT_SET_HERE"}}, "NOT_SET_HERE is not set"),
    "no certificate": ({"ca": "/nowhere/ca.pem"}, "no certificates can be read"),
}


@pytest.mark.parametrize(("settings", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_seen_before_anybody_is_asked(settings, message):
    with pytest.raises(BadModel, match=message):
        check_model(configured("http://127.0.0.1:9", protocol="http", **{"input": "text", **settings}))


def test_pairs_are_objects(server):
    run(of_texts(server, {"predictions": [[0.5, 0.5]]}, input="text_pair"), [TextPair(text="a", text_pair="b")])
    assert server.asked == [{"texts": [{"text": "a", "text_pair": "b"}]}]


def found(model):
    return [json.dumps([getattr(one, "steps", None), one.text]) for one in try_remote("mine", model, offline=False)]


def test_check_asks_the_server_and_names_the_key(server):
    assert found(configured(server.url)) == []
    (name,) = found(configured(server.url, tensor={"name": "inputs"}))[:1]
    assert "tensor" in name
    assert "did you mean `input`" in name
    assert any("FP64 is sent" in one for one in found(configured(server.url, tensor={"datatype": "FP64"})))
    assert any("'4' is not one of: 3" in one or "404" in one for one in found(configured(server.url, version="4")))
    assert any('"output"' in one for one in found(configured(server.url, output="scores")))
    assert any('"url"' in one for one in found(configured("http://127.0.0.1:9")))
    assert found(configured(server.url, protocol="http", output="nowhere"))


def test_a_server_that_names_two_versions_is_told_of(server, some_rows):
    async def again(loaded):
        server.version = "5"
        await loaded.run(ModelRequest(inputs=some_rows[0], needs=frozenset()))
        return loaded.remarks()

    _, told = run(configured(server.url), some_rows[0], then=again)
    assert any("has answered with versions '3', '5'" in one for one in told)
