"""The Open Inference Protocol over gRPC: a real server with Triton's own messages, and what a bad one says."""

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb

from demur.serve.contract.inputs import TextPair
from demur.uncertainty.readings import outages_in
from tests.serve.grpc_model_server import serving_grpc, texts_of
from tests.serve.hosts.remote.conftest import configured, run, why


@pytest.fixture
def grpc_server(classifier):
    with serving_grpc(classifier.predict_proba) as running:
        yield running


def over_grpc(server, **more):
    return configured(server.url, protocol="oip_grpc", **{"tensor": {"datatype": "FP64"}, **more})


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("tensor", [{"datatype": "FP64"}, {"columns": "apart", "row_shape": [1]}])
def test_the_answers_are_those_of_the_model(grpc_server, classifier, some_rows, raw, tensor):
    grpc_server.raw = raw
    inputs, array = some_rows
    output = run(over_grpc(grpc_server, tensor=tensor), inputs)
    assert np.allclose(output.probabilities, classifier.predict_proba(array), rtol=0, atol=1e-12)
    assert len(grpc_server.asked) == 1


def test_secrets_parameters_and_the_version_are_sent(grpc_server, some_rows, monkeypatch):
    monkeypatch.setenv("CANCER_KEY", "Bearer s3cret")
    told = {"headers_env": {"Authorization": "CANCER_KEY"}, "headers": {"X-Team": "demur"}, "version": "3"}
    run(over_grpc(grpc_server, **told, parameters={"content_type": "pd", "priority": 2, "greedy": True}), some_rows[0])
    assert grpc_server.headers[0]["authorization"] == "Bearer s3cret"
    assert grpc_server.headers[0]["x-team"] == "demur"
    assert grpc_server.asked[0].model_version == "3"
    parameters = grpc_server.asked[0].parameters
    assert parameters["content_type"].string_param == "pd"
    assert parameters["priority"].int64_param == 2
    assert parameters["greedy"].bool_param is True


def test_texts_are_elements_of_bytes(grpc_server):
    grpc_server.instead = lambda request, _: grpc_server.reply([[0.5, 0.5]] * request.inputs[0].shape[0])
    run(over_grpc(grpc_server, input="text", tensor={"name": "TEXT", "row_shape": [1]}), ["één", ""])
    asked = grpc_server.asked[0]
    assert (asked.inputs[0].name, asked.inputs[0].datatype, list(asked.inputs[0].shape)) == ("TEXT", "BYTES", [2, 1])
    assert texts_of(asked.raw_input_contents[0]) == ["één", ""]
    pair = TextPair(text="a", text_pair="b")
    run(over_grpc(grpc_server, input="text_pair", tensor={"names": {"text": "premise"}}), [pair, pair])
    assert [tensor.name for tensor in grpc_server.asked[1].inputs] == ["premise", "text_pair"]
    assert [texts_of(raw) for raw in grpc_server.asked[1].raw_input_contents] == [["a", "a"], ["b", "b"]]


AWAY = {
    grpc.StatusCode.UNAVAILABLE: True,
    grpc.StatusCode.RESOURCE_EXHAUSTED: True,
    grpc.StatusCode.UNAUTHENTICATED: False,
    grpc.StatusCode.NOT_FOUND: False,
    grpc.StatusCode.UNIMPLEMENTED: False,
}


@pytest.mark.parametrize(("code", "passes"), AWAY.items(), ids=lambda value: getattr(value, "name", value))
def test_some_codes_are_outages(grpc_server, some_rows, code, passes):
    grpc_server.instead = lambda _, context: context.abort(code, "not now")
    output = run(over_grpc(grpc_server), some_rows[0])
    (outage, *_) = outages_in(output)
    assert outage.passes == passes
    assert code.name in outage.why
    assert not output.usable().any()
    assert len(grpc_server.asked) == 1


@pytest.mark.slow
def test_what_fails_in_passing_is_asked_again(grpc_server, some_rows):
    def fails_twice(_, context):
        if len(grpc_server.asked) < 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "starting")

    grpc_server.instead = fails_twice
    assert run(over_grpc(grpc_server, retries=2), some_rows[0]).usable().all()


def test_nobody_there_is_an_outage(some_rows):
    output = run(configured("grpc://127.0.0.1:9", protocol="oip_grpc"), some_rows[0])
    assert outages_in(output)[0].passes
    assert "UNAVAILABLE" in outages_in(output)[0].why


@pytest.mark.slow
def test_a_slow_server_is_given_up_in_time(grpc_server, some_rows):
    grpc_server.instead = lambda *_: time.sleep(3)
    began = time.monotonic()
    output = run(over_grpc(grpc_server, timeout_seconds=0.5, retries=3), some_rows[0])
    assert time.monotonic() - began < 2.5
    assert outages_in(output)[0].passes


def test_a_model_that_raises_holds_the_input_that_is_to_blame(grpc_server, classifier, some_rows):
    inputs, array = some_rows

    def raises(rows):
        if (rows[:, 0] == array[2, 0]).any():
            raise ValueError("a negative radius")
        return classifier.predict_proba(rows)

    grpc_server.predict = raises
    output = run(over_grpc(grpc_server), inputs)
    assert output.usable().tolist() == [True, True, False, True, True]
    assert "a negative radius" in output.why_unusable()[2]


def wrong(**changes):
    def reply(server):
        return lambda request, _: server.reply(
            [[0.25, 0.75]] * request.inputs[0].shape[0], **{"shape": None, **changes}
        )

    return reply


def empty(server):
    return lambda *_: pb.ModelInferResponse(model_name="cancer")


def two_data(server):
    def reply(request, _):
        told = server.reply([[0.25, 0.75]])
        told.raw_output_contents.append(b"")
        return told

    return reply


def fields(server):
    def reply(request, _):
        told = pb.ModelInferResponse()
        told.MergeFromString(b"\x2a\x00" * 60_000)
        return told

    return reply


def endless(server):
    return lambda *_: server.reply(np.zeros(2**18))


BAD = {
    "another version": (wrong(version="4"), "it answered with version '4', and host.version is '3'"),
    "no tensor": (empty, "host.output: the server gave several tensors or none"),
    "another name": (wrong(name="predictions"), "host.output: the server gave no such tensor"),
    "another shape": (wrong(shape=[1, 3]), "16 bytes of data; 1 x 3 elements of FP64 have 24"),
    "a huge shape": (wrong(shape=[2**20, 2**40]), "elements of FP64"),
    "data for no tensor": (two_data, "1 tensors, and data for 2"),
    "very many fields": (fields, "fields"),
    "a long message": (endless, "sent more than 1,048,576 bytes; see host.reply_bytes"),
}


@pytest.mark.parametrize(("reply", "message"), BAD.values(), ids=BAD)
def test_a_reply_that_cannot_be_read_holds_and_says_why(grpc_server, some_rows, reply, message):
    grpc_server.instead = reply(grpc_server)
    told = {"version": "3", "reply_bytes": 2**20}
    if "several" not in message:
        told["output"] = "probabilities"
    output = run(over_grpc(grpc_server, **told), some_rows[0][:1])
    assert message in why(output)


def test_a_compressed_reply_is_refused(some_rows):
    """64 MiB of zeros are a few kilobytes then."""
    asked = []

    def bomb(request, _):
        asked.append(request)
        told = pb.ModelInferResponse(model_name="cancer")
        told.outputs.add(name="probabilities", datatype="FP64", shape=[2**23])
        told.raw_output_contents.append(bytes(2**26))
        return told

    handler = grpc.unary_unary_rpc_method_handler(
        bomb, pb.ModelInferRequest.FromString, pb.ModelInferResponse.SerializeToString
    )
    handlers = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", {"ModelInfer": handler})
    unbounded = [("grpc.max_send_message_length", -1)]
    hostile = grpc.server(ThreadPoolExecutor(2), compression=grpc.Compression.Gzip, options=unbounded)
    hostile.add_generic_rpc_handlers((handlers,))
    port = hostile.add_insecure_port("127.0.0.1:0")
    hostile.start()
    output = run(configured(f"grpc://127.0.0.1:{port}", protocol="oip_grpc"), some_rows[0][:1])
    hostile.stop(0).wait()
    assert asked
    assert not output.usable().any()
    assert "gzip" in why(output)
