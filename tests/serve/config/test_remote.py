"""`host: {kind: remote}` in the configuration: what does not go together, and what is said of it."""

import pytest
from pydantic import ValidationError

from demur.serve.config.file import Config

LABELS = ["no", "yes"]
OIP = {"protocol": "oip_rest", "url": "http://models:8080", "model": "m"}
GRPC = {**OIP, "protocol": "oip_grpc", "url": "grpc://models:8081"}
HTTP = {"protocol": "http", "url": "http://models/predict", "request": {"rows": "$inputs"}, "output": "p"}

TABLE = {"kind": "table", "columns": {"age": "number", "job": ["clerk", "nurse"]}}
NUMBERS = {"kind": "table", "columns": {"age": "number", "income": "number"}}
IMAGE = {"kind": "image", "channels": 3, "height": 2, "width": 2}


def configured(host, labels=LABELS):
    section = {
        "task": {"kind": "binary", "labels": labels},
        "host": {"kind": "remote", **host},
        "scores": ["entropy"],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    return Config.model_validate({"models": {"mine": section}}).models["mine"].host


def of_columns(**more):
    return {**OIP, "input": TABLE, "tensor": {"columns": "apart", **more}}


RIGHT = {
    "oip_rest": OIP,
    "oip_grpc": GRPC,
    "http": HTTP,
    "a path before /v2": {**OIP, "url": "https://models.example.com/eu/"},
    "a port alone": {**OIP, "url": "http://[::1]:8080"},
    "numbers in one tensor": {**OIP, "input": NUMBERS, "tensor": {"row_shape": [2, 1]}},
    "a tensor for each column": of_columns(names={"age": "AGE"}, row_shape=[1]),
    "a pair as one text": {**OIP, "input": "text_pair", "tensor": {"columns": "json"}},
    "channels behind": {**OIP, "input": IMAGE, "layout": "nhwc", "tensor": {"row_shape": [12]}},
    "bytes behind the JSON": {**OIP, "binary": True},
    "labels in another order": {**OIP, "labels": ["yes", "no"]},
    "a secret from the environment": {**OIP, "headers_env": {"Authorization": "MODELS_KEY"}},
}

WRONG = {
    "no address": ({**OIP, "url": "models:8080"}, "'models:8080' is not an address like http://models"),
    "a space in the address": ({**OIP, "url": "http://mod els"}, "is not an address like"),
    "a port that is none": ({**OIP, "url": "http://models:99999"}, "is not an address like"),
    "a password in the address": ({**OIP, "url": "http://u:p@models"}, "put what the server wants into headers_env"),
    "a file": ({**OIP, "url": "file:///etc/passwd"}, "'file:///etc/passwd' is not an address"),
    "a file on a host": ({**OIP, "url": "file://here/etc/passwd"}, "for oip_rest it begins with http:// or https://"),
    "gRPC over HTTP": ({**GRPC, "url": "http://models:8081"}, "for oip_grpc it begins with grpc:// or grpcs://"),
    "an address with /v2": (
        {**OIP, "url": "http://models:8080/v2/models/m"}, "write the address up to `/v2`, as http://models:8080, and"
    ),
    "no model": ({**OIP, "model": None}, "model: name the model, as its server calls it"),
    "a body for tensors": ({**OIP, "request": {"a": 1}}, "request: it is for `protocol: http`"),
    "rows as arrays for tensors": ({**OIP, "table_rows": "arrays"}, "table_rows: it is for `protocol: http`"),
    "labels without their numbers": ({**OIP, "output_labels": "l"}, "output: name the tensor with the numbers"),
    "an embedding alone": (
        {**OIP, "embedding": "e", "embedding_size": 3}, "output: name the tensor with the prediction, beside the one"
    ),
    "an embedding of no size": ({**OIP, "output": "p", "embedding": "e"}, "embedding_size: write how many numbers"),
    "a size of no embedding": ({**OIP, "embedding_size": 3}, "embedding_size: write how many numbers"),
    "bytes over gRPC": ({**GRPC, "binary": True}, "binary: it is for oip_rest; gRPC always sends bytes"),
    "a layout of texts": ({**OIP, "layout": "nhwc"}, "layout: it is that of an image, and the input is text"),
    "a layout that there is not": ({**OIP, "input": IMAGE, "layout": "last"}, "layout"),
    "a table without columns": ({**OIP, "input": "table"}, "input.columns: name the columns of the table"),
    "texts among numbers": ({**OIP, "input": TABLE}, "tensor.columns: the column job holds texts, and one tensor"),
    "columns of a text": ({**OIP, "tensor": {"columns": "apart"}}, "it is for a table or a text_pair, and"),
    "a pair together": (
        {**OIP, "input": "text_pair", "tensor": {"columns": "together"}}, "it can be apart, json, and the input is"
    ),
    "names of one tensor": (
        {**OIP, "input": NUMBERS, "tensor": {"names": {"age": "AGE"}}}, "tensor.names: they are for `columns: apart`"
    ),
    "the name of no column": (of_columns(names={"aeg": "AGE"}), "tensor.names: 'aeg' is not one of"),
    "two columns of one name": (of_columns(names={"age": "job"}), "two columns would be the tensor job"),
    "a shape of other numbers": (
        {**OIP, "input": NUMBERS, "tensor": {"row_shape": [3]}}, "it has 3 elements, and one input has 2"
    ),
    "a shape of a column": (of_columns(row_shape=[2]), "tensor.row_shape: it has 2 elements, and one input has 1"),
    "no body": ({**HTTP, "request": None}, "request: write the body that the server takes, such as `request: {inst"),
    "no body for single inputs": ({**HTTP, "request": None, "takes_batches": False}, "{instances: $input}`"),
    "no place of the numbers": ({**HTTP, "output": None}, "output: write where the numbers are in the reply"),
    "tensors over plain HTTP": ({**HTTP, "tensor": {"name": "a"}}, "tensor: it is for the Open Inference Protocol"),
    "parameters over plain HTTP": ({**HTTP, "parameters": {"a": 1}}, "parameters: it is for the Open Inference"),
    "a header that is none": ({**OIP, "headers": {"a b": "c"}}, "headers: 'a b' is not a header that can be set"),
    "a header of the connection": ({**OIP, "headers": {"Host": "c"}}, "headers: 'Host' is not a header that can"),
    "a header of two lines": ({**OIP, "headers": {"A": "b\r\nC: d"}}, "headers.A: a header holds printable ASCII"),
    "a secret in the file": (
        {**OIP, "headers": {"X-Api-Key": "s3cret"}}, "write `headers_env: {X-Api-Key: NAME_OF_A_VARIABLE}`"
    ),
    "a header twice": (
        {**OIP, "headers": {"Accept": "a"}, "headers_env": {"accept": "B"}}, "accept is in `headers_env` as well"
    ),
    "an unknown label": ({**OIP, "labels": ["no", "yess"]}, "host.labels: 'yess' is not one of"),
    "a label that is missing": ({**OIP, "labels": ["no"]}, "host.labels: 'yes' is missing"),
    "a label twice": ({**OIP, "labels": ["no", "yes", "yes"]}, "host.labels: a label is named twice"),
}  # fmt: skip


@pytest.mark.parametrize("host", RIGHT.values(), ids=RIGHT)
def test_what_goes_together_is_taken(host):
    assert configured(host).url == host["url"].rstrip("/")


@pytest.mark.parametrize(("host", "why"), WRONG.values(), ids=WRONG)
def test_what_does_not_go_together_is_refused(host, why):
    with pytest.raises(ValidationError) as refused:
        configured(host)
    assert why in str(refused.value)
    assert "s3cret" not in str(refused.value).split("[type=")[0]


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ValidationError) as refused:
        configured({**OIP, "model": None, "binary": True, "protocol": "oip_grpc", "layout": "nhwc"})
    for key in ("url: ", "model: ", "binary: ", "layout: "):
        assert key in str(refused.value)
