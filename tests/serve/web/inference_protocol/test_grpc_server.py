"""The same over gRPC: Triton's official client against the real server, with the hosts that a test writes."""

import asyncio
import logging
import resource
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import monotonic

import grpc
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

from demur.serve.access.caller import Caller, RateBuckets, Via
from demur.serve.access.rates import Bucket, Rate
from demur.serve.access.refusals import NotKnown
from demur.serve.config.access import Scope
from demur.serve.config.file import LimitsConfig
from demur.serve.contract.inference_protocol.messages import FIELDS, SERVICE, messages
from demur.serve.contract.inference_protocol.structure import MOST_FIELDS, check_fields
from demur.serve.contract.inputs import TooLarge
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.telemetry import metrics
from demur.serve.web.inference_protocol import grpc_server
from demur.serve.web.inference_protocol.grpc_server import MOST_ELEMENTS, listening

LONGEST = 100_000


@contextmanager
def served(handler, keeper=None, **more):
    """A server in a loop of its own, in a thread; gives its address."""
    opened, started = asyncio.new_event_loop(), threading.Event()
    found = {}

    async def serve():
        found["done"] = asyncio.Event()
        told = {"limits": LimitsConfig(body_bytes=LONGEST), **more}
        async with listening(handler, host="127.0.0.1", port=0, keeper=keeper, **told) as port:
            found["address"] = f"127.0.0.1:{port}"
            started.set()
            await found["done"].wait()
        await handler.close()

    thread = threading.Thread(target=opened.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert started.wait(20)
        yield found["address"]
    finally:
        opened.call_soon_threadsafe(found["done"].set)
        thread.join()
        opened.close()


@pytest.fixture
def address(text_handler):
    with served(text_handler) as address:
        yield address


@pytest.fixture
def client(address):
    with over_grpc.InferenceServerClient(address) as client:
        yield client


@pytest.fixture
def call(address):
    """Send a message of our own making to one of the calls."""
    with grpc.insecure_channel(address) as channel:
        infer = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        yield lambda **content: infer(service_pb2.ModelInferRequest(**content), timeout=30)


def texts_of(*texts):
    made = over_grpc.InferInput("input", [len(texts)], "BYTES")
    made.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object))
    return [made]


@pytest.mark.parametrize("name", FIELDS)
def test_the_messages_are_those_of_the_clients(name):
    ours = messages()[name].DESCRIPTOR
    inside = {
        "TensorMetadata": service_pb2.ModelMetadataResponse,
        "InferInputTensor": service_pb2.ModelInferRequest,
        "InferRequestedOutputTensor": service_pb2.ModelInferRequest,
        "InferOutputTensor": service_pb2.ModelInferResponse,
    }
    theirs = getattr(inside.get(name, service_pb2), name).DESCRIPTOR

    def told(fields):
        return {
            (one.name, one.number, one.type, one.is_repeated, getattr(one.message_type, "name", "")) for one in fields
        }

    assert told(ours.fields) == told(theirs.fields)
    assert [one.name for one in ours.oneofs] == [one.name for one in theirs.oneofs]


def test_health_and_metadata(client, hosts):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("colours")
    assert client.is_model_ready("colours", "colours-1")
    assert client.get_server_metadata().extensions == ["binary_tensor_data"]
    metadata = client.get_model_metadata("photos", as_json=True)
    assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": ["-1", "3", "2", "4"]}]
    hosts["colours"].artifact = None
    assert not client.is_model_ready("colours")
    assert not client.is_server_ready()
    for wrong in ({"model_name": "nobody"}, {"model_name": "letters", "model_version": "1"}):
        with pytest.raises(InferenceServerException) as raised:
            client.is_model_ready(**wrong)
        assert raised.value.status() == "StatusCode.NOT_FOUND"


def test_rows_in_and_tensors_out(client, hosts):
    result = client.infer(
        "colours", texts_of("one", "a doubt", "unknown"), request_id="mine", parameters={"group": "g"}
    )
    assert result.as_numpy("action").tolist() == [b"answer", b"review", b"review"]
    np.testing.assert_array_equal(result.as_numpy("confidence"), [0.875, 0.25, np.nan])
    assert result.as_numpy("top_labels").tolist() == [[b"red", b"blue", b""]] * 3
    told = result.get_response()
    assert (told.id, told.model_version) == ("mine", "colours-1")
    assert told.parameters["actions"].string_param == '["answer","review","review"]'
    assert hosts["colours"].asked == [(["one", "a doubt", "unknown"], ["g"] * 3)]
    one = client.infer("colours", texts_of("one"), outputs=[over_grpc.InferRequestedOutput("abstained")])
    assert one.as_numpy("abstained").tolist() == [False]
    assert one.as_numpy("confidence") is None
    parameters = one.get_response().parameters
    assert (parameters["abstained"].bool_param, parameters["confidence"].double_param) == (False, 0.875)


def test_elements_by_their_type(call, hosts):
    image = {"name": "input", "datatype": "FP32", "shape": [1, 3, 2, 4], "contents": {"fp32_contents": [0.5] * 24}}
    response = call(model_name="photos", inputs=[image])
    assert list(response.raw_output_contents) == []
    by_name = {output.name: output for output in response.outputs}
    assert by_name["confidence"].contents.fp64_contents == [0.875]
    assert by_name["prediction"].contents.bytes_contents == [b"red"]
    small = {**image, "datatype": "UINT8", "contents": {"uint_contents": [255] * 24}}
    call(model_name="photos", inputs=[small])
    first, second = (asked[0][0] for asked in hosts["photos"].asked)
    assert (first.max(), second.min()) == (0.5, 255)  # eight bits as they came


def test_a_key_makes_retries_safe(client):
    first, again = (
        client.infer("colours", texts_of("one", "two"), headers={"idempotency-key": "once"}) for _ in range(2)
    )
    assert first.as_numpy("id").tolist() == again.as_numpy("id").tolist()
    with pytest.raises(InferenceServerException) as raised:
        client.infer("colours", texts_of("three"), headers={"idempotency-key": "once"})
    assert raised.value.status() == "StatusCode.ALREADY_EXISTS"


def test_a_deadline_is_the_callers(client, hosts):
    async def never(*_):
        await asyncio.sleep(60)

    hosts["colours"].decide = never
    with pytest.raises(InferenceServerException) as raised:
        client.infer("colours", texts_of("one"), client_timeout=0.1)
    assert raised.value.status() == "StatusCode.DEADLINE_EXCEEDED"


def test_what_is_late_is_not_begun(client, hosts, text_handler):
    """A call that waits behind another one until its time is over never reaches the model."""
    begun, go = threading.Semaphore(0), threading.Event()
    decide = hosts["colours"].decide

    async def slowly(*asked):
        begun.release()
        await asyncio.to_thread(go.wait)
        return await decide(*asked)

    hosts["colours"].decide = slowly
    for _ in range(text_handler.models["colours"].config.host.batch.in_flight):
        client.async_infer("colours", texts_of("first"), callback=lambda **_: None)
        assert begun.acquire(timeout=20)
    with pytest.raises(InferenceServerException) as raised:
        client.infer("colours", texts_of("late"), client_timeout=0.2)
    assert raised.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    go.set()
    client.infer("colours", texts_of("last"))
    assert "late" not in [text for texts, _ in hosts["colours"].asked for text in texts]


def test_a_call_is_logged_counted_and_named(text_handler, call_log):
    with served(text_handler, access_log=True) as address, grpc.insecure_channel(address) as channel:
        path = f"/{SERVICE}/ModelReady"
        ready = channel.unary_unary(
            path,
            request_serializer=service_pb2.ModelReadyRequest.SerializeToString,
            response_deserializer=service_pb2.ModelReadyResponse.FromString,
        )
        _, done = ready.with_call(service_pb2.ModelReadyRequest(name="colours"), metadata=[("x-request-id", "mine-1")])
        assert ("x-request-id", "mine-1") in done.trailing_metadata()
        with pytest.raises(grpc.RpcError) as raised:
            ready(service_pb2.ModelReadyRequest(name="nobody"), metadata=[("x-request-id", "not sane")])
        assert len(dict(raised.value.trailing_metadata())["x-request-id"]) == 32
    assert [(one.method, one.path, one.status) for one in call_log] == [("GRPC", path, 200), ("GRPC", path, 404)]
    counts = text_handler.telemetry.counts
    assert counts[metrics.REQUESTS] == {(path, "200"): 1, (path, "404"): 1}
    assert counts[metrics.ERRORS] == {("UnknownModel",): 1}
    assert text_handler.telemetry.open_requests == 0


@pytest.fixture
def call_log():
    ours, lines = logging.getLogger("demur.access"), []
    handler = logging.Handler()
    handler.emit = lines.append
    level = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    yield lines
    ours.removeHandler(handler)
    ours.setLevel(level)


def test_it_is_full_for_both_doors_together(text_handler, hosts):
    room = RequestLimit(most=1)
    with served(text_handler, room=room) as address, over_grpc.InferenceServerClient(address) as client:
        room.enter()  # as a request over HTTP does
        with pytest.raises(InferenceServerException, match="1 requests are open here already") as raised:
            client.infer("colours", texts_of("one"))
        assert raised.value.status() == "StatusCode.UNAVAILABLE"
        assert client.is_server_live()
        room.leave()
        client.infer("colours", texts_of("one"))
        with pytest.raises(InferenceServerException, match="no model"):
            client.infer("nobody", texts_of("one"))
        client.infer("colours", texts_of("one"))  # a place is free again after a failure


TENSOR = {"name": "input", "datatype": "BYTES", "shape": [1]}
TEXT = {"bytes_contents": [b"a"]}
REFUSED = {
    "no input": ({}, "takes one tensor, 'input', and this is nothing"),
    "no data": ({"inputs": [TENSOR]}, "inputs.0.contents: there are 0 elements; the shape says 1"),
    "both kinds of data": (
        {"inputs": [{**TENSOR, "contents": TEXT}], "raw_input_contents": [b"\1\0\0\0a"]}, "and not both"
    ),
    "bytes without an input": ({"raw_input_contents": [b""]}, "raw_input_contents: there are 1 for 0 inputs"),
    "bytes that are no elements": (
        {"inputs": [TENSOR], "raw_input_contents": [b"\xff\xff\xff\xffa"]}, "the data is not 1 elements of BYTES"
    ),
    "text that is not UTF-8": (
        {"inputs": [{**TENSOR, "contents": {"bytes_contents": [b"\xff"]}}]}, "row 0 is not text in UTF-8"
    ),
    "an unknown datatype": ({"inputs": [{**TENSOR, "datatype": "INT4", "contents": TEXT}]}, "'INT4' is not taken"),
    "halves by their type": (
        {"inputs": [{**TENSOR, "datatype": "FP16", "contents": TEXT}]}, "send it as raw_input_contents"
    ),
    "a negative dimension": ({"inputs": [{**TENSOR, "shape": [-1], "contents": TEXT}]}, "from 1 to 2^63 - 1"),
    "a parameter without a value": ({"parameters": {"group": {}}}, "parameters.group: the value is missing"),
    "classes in the place of numbers": (
        {"inputs": [{**TENSOR, "contents": TEXT}], "outputs": [{"name": "id", "parameters": {"classification": {}}}]},
        "this extension is not offered",
    ),
    "too many rows": ({"inputs": [{**TENSOR, "shape": [6], "contents": {"bytes_contents": [b"a"] * 6}}]}, "has 6 rows"),
    "empty text": ({"inputs": [{**TENSOR, "contents": {"bytes_contents": [b""]}}]}, "input: the text is empty"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(call, what, hosts):
    content, message = REFUSED[what]
    with pytest.raises(grpc.RpcError) as raised:
        call(model_name="colours", **content)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert message in raised.value.details()
    assert hosts["colours"].asked == []


def test_messages_beyond_the_limit_are_refused(call):
    with pytest.raises(grpc.RpcError) as raised:
        call(model_name="colours", inputs=[{**TENSOR, "contents": {"bytes_contents": [b"a" * 2 * LONGEST]}}])
    assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


tensors = st.fixed_dictionaries(
    {
        "name": st.just("input") | st.text(max_size=3),
        "datatype": st.sampled_from(["FP32", "FP64", "UINT8", "BOOL", "BYTES", "INT8", ""]),
        "shape": st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 4), max_size=5) | st.just([1, 3, 2, 4]),
    },
    optional={
        "contents": st.fixed_dictionaries(
            {},
            optional={
                "fp32_contents": st.lists(st.floats(width=32), max_size=4) | st.just([0.5] * 24),
                "fp64_contents": st.lists(st.floats(), max_size=4),
                "uint_contents": st.lists(st.integers(0, 2**32 - 1), max_size=4) | st.just([7] * 24),
                "bytes_contents": st.lists(st.binary(max_size=8), max_size=3),
            },
        )
    },
)


def test_no_message_is_ever_an_internal_error(call):
    @given(
        st.lists(tensors, max_size=2),
        st.lists(st.binary(max_size=96) | st.just(bytes(96)), max_size=2),
        st.sampled_from(["colours", "letters", "talker", "photos"]),
    )
    def whatever(inputs, raw, model):
        said = None
        try:
            call(model_name=model, inputs=inputs, raw_input_contents=raw)
        except grpc.RpcError as error:
            said = error.code()
        assert said in (None, grpc.StatusCode.INVALID_ARGUMENT)

    whatever()


class Doorkeeper:
    """Knows two keys by heart, one of which may not ask often."""

    def __init__(self):
        self._buckets = RateBuckets(predictions=Bucket(Rate(per_second=0.001, burst=2), monotonic()))

    async def admit(self, headers, needs):
        assert needs is Scope.PREDICT
        models = {"Bearer all": None, "Bearer letters": frozenset({"letters"})}
        if headers.get("authorization") not in models:
            raise NotKnown("nobody knows who you are")
        return Caller(
            name="somebody", scopes=frozenset({needs}), via=Via.KEY, models=models[headers["authorization"]],
            buckets=self._buckets,
        )  # fmt: skip


def test_a_keeper_stands_at_the_door(text_handler, hosts):
    with (
        served(text_handler, keeper=Doorkeeper()) as address,
        over_grpc.InferenceServerClient(address) as client,
    ):
        assert client.is_server_live()
        assert client.is_server_ready()

        def refused(call, **headers):
            with pytest.raises(InferenceServerException) as raised:
                call(headers=headers)
            return raised.value.status()

        for call in (
            client.get_server_metadata,
            partial(client.get_model_metadata, "colours"),
            partial(client.is_model_ready, "colours"),
            partial(client.infer, "colours", texts_of("one")),
        ):
            assert refused(call) == "StatusCode.UNAUTHENTICATED"
            if call != client.get_server_metadata:
                assert refused(call, authorization="Bearer letters") == "StatusCode.PERMISSION_DENIED"
        assert hosts["colours"].asked == []
        client.infer("colours", texts_of("one", "two"), headers={"authorization": "Bearer all"})
        too_many = partial(client.infer, "colours", texts_of("three"))
        assert refused(too_many, authorization="Bearer all") == "StatusCode.RESOURCE_EXHAUSTED"


def stalled():
    """What a client sends that has begun a call and never sends its message."""
    over = threading.Event()

    def messages():
        over.wait(60)
        yield from ()

    return over, messages()


@contextmanager
def begun(address, **metadata):
    """A call of which the message never comes."""
    with grpc.insecure_channel(address) as channel:
        infer = channel.stream_unary(f"/{SERVICE}/ModelInfer")
        over, messages = stalled()
        try:
            yield infer.future(messages, metadata=tuple(metadata.items()), timeout=60)
        finally:
            over.set()


def test_a_message_that_never_comes_is_not_waited_for(text_handler):
    room = RequestLimit(most=2)  # one of them for what may come at the same moment
    told = {"limits": LimitsConfig(body_bytes=LONGEST, body_seconds=0.5), "room": room}
    with served(text_handler, **told) as address, begun(address) as call:
        with over_grpc.InferenceServerClient(address) as client:
            client.infer("colours", texts_of("one"))
        assert room.taken == 0  # it takes no place meanwhile
        assert call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "the body had not come within 0.5 s" in call.details()
        assert room.taken == 0


def test_messages_that_never_come_take_little_room(text_handler):
    """Each counts as long as it may be; who calls with a message that comes at once finds room all the same."""
    limits = LimitsConfig(body_bytes=LONGEST, body_seconds=3, open_bytes=2 * LONGEST, share_per_key=1)
    with served(text_handler, limits=limits) as address, ExitStack() as opened:
        calls = [opened.enter_context(begun(address)) for _ in range(6)]
        with over_grpc.InferenceServerClient(address) as client:
            for _ in range(5):
                client.infer("colours", texts_of("one"))
        codes = Counter(call.code() for call in calls)
        assert codes == {grpc.StatusCode.UNAVAILABLE: 4, grpc.StatusCode.DEADLINE_EXCEEDED: 2}


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""With which a client begins, and its settings, which are none."""


@contextmanager
def open_connections(address, count, begin):
    host, port = address.split(":")
    with ExitStack() as opened:
        connections = [opened.enter_context(socket.create_connection((host, int(port)))) for _ in range(count)]
        for connection in connections:
            connection.settimeout(5)
            connection.sendall(begin)
        yield connections


def is_closed(connection):
    try:
        while connection.recv(1000):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def test_connections_leave_files_for_http(text_handler, monkeypatch):
    """No proxy stands before this port: twenty thousand idle connections left the gateway no file for anything else."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (16, 16))
    with served(text_handler) as address, open_connections(address, 8, PREFACE) as connections:
        for connection in connections:
            connection.settimeout(1)
        assert sum(map(is_closed, connections)) == 4


@pytest.mark.parametrize("begin", [b"", PREFACE[:20], PREFACE])
def test_a_connection_over_which_nobody_calls_is_closed(text_handler, monkeypatch, begin):
    monkeypatch.setattr(grpc_server, "HANDSHAKE_SECONDS", 0.5)
    monkeypatch.setattr(grpc_server, "IDLE_SECONDS", 0.5)
    with served(text_handler) as address, open_connections(address, 1, begin) as (connection,):
        assert is_closed(connection)
        with over_grpc.InferenceServerClient(address) as client:  # and a client opens another one by itself
            for wait in (0, 1.5):
                time.sleep(wait)
                assert client.is_server_live()


@pytest.mark.parametrize(("files", "most"), [(1024, 256), (20_000, 4096), (resource.RLIM_INFINITY, 4096)])
def test_how_many_connections_are_taken(files, most, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert grpc_server.most_connections() == most


def test_a_stranger_is_refused_before_the_message_comes(text_handler):
    with served(text_handler, keeper=Doorkeeper()) as address, begun(address) as call:
        assert call.code() is grpc.StatusCode.UNAUTHENTICATED


def test_one_key_leaves_places_for_others_over_grpc(text_handler):
    room = RequestLimit(most=8, share=0.5)
    for _ in range(4):
        room.enter("key somebody")  # as requests over HTTP with the same key do
    with (
        served(text_handler, keeper=Doorkeeper(), room=room) as address,
        over_grpc.InferenceServerClient(address) as client,
    ):
        with pytest.raises(InferenceServerException, match="for 'key somebody' alone") as raised:
            client.infer("colours", texts_of("one"), headers={"authorization": "Bearer all"})
        assert raised.value.status() == "StatusCode.UNAVAILABLE"


@pytest.mark.parametrize("message", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b"])
def test_what_is_no_message_is_refused(address, message):
    with grpc.insecure_channel(address) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            channel.unary_unary(f"/{SERVICE}/ModelInfer")(message, timeout=30)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert raised.value.details() == "the message is none of this call"


def field(number, content):
    length = len(content)
    head = bytes([number << 3 | 2])
    while length > 0x7F:
        head, length = head + bytes([length & 0x7F | 0x80]), length >> 7
    return head + bytes([length]) + content


MANY = 60_000
HOSTILE = {
    "inputs": field(5, b"") * MANY,
    "outputs": field(6, b"") * MANY,
    "parameters": field(4, b"") * MANY,
    "raw data": field(7, b"") * MANY,
    "texts of a tensor": field(5, field(5, field(8, b"") * MANY)),
    "parameters of a tensor": field(5, field(4, b"") * MANY),
    "parameters of an output": field(6, field(4, b"") * MANY),
    "tensors in pieces": field(5, field(5, b"") * MANY),
    "fields that nobody knows": b"\x80\x01\x00" * MANY,
    "groups that never end": b"\x83\x01" * MANY,
    "fields of eight bytes": (b"\x81\x01" + bytes(8)) * MANY,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_fields_are_counted_before_a_message_is_read(what):
    check_fields(HOSTILE[what][: 2 * MOST_FIELDS])
    with pytest.raises(TooLarge, match="the message has more than 50,000 fields"):
        check_fields(HOSTILE[what])


def test_a_large_message_of_few_fields_is_read():
    request = service_pb2.ModelInferRequest(model_name="m")
    tensor = request.inputs.add(name="input", datatype="FP32", shape=[4, 500_000])
    tensor.contents.fp32_contents.extend([0.5] * 2_000_000)
    request.inputs.add(name="more", datatype="BYTES").contents.bytes_contents.extend([b"a text"] * 40_000)
    check_fields(request.SerializeToString())


@pytest.mark.slow
@given(st.binary(max_size=200).map(lambda part: part * (2 * MOST_FIELDS // max(1, len(part)) + 1)))
def test_whatever_the_bytes_are_they_are_counted_or_refused(message):
    with suppress(TooLarge):
        check_fields(message)


def test_what_is_sent_one_by_one_is_no_longer_than_fits(text_handler):
    limits = LimitsConfig(body_bytes=16 * 2**20)
    with served(text_handler, limits=limits) as address, grpc.insecure_channel(address) as channel:
        infer = channel.unary_unary(
            f"/{SERVICE}/ModelInfer", request_serializer=service_pb2.ModelInferRequest.SerializeToString
        )
        request = service_pb2.ModelInferRequest(model_name="colours")
        tensor = request.inputs.add(name="input", datatype="BOOL", shape=[1])
        tensor.contents.bool_contents.extend([True] * (MOST_ELEMENTS + 1))
        with pytest.raises(grpc.RpcError) as raised:
            infer(request, timeout=60)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert raised.value.details().endswith("more than 4,194,304 are sent as raw_input_contents")
