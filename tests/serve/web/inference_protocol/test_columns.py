"""Tables and pairs of texts whose columns come as tensors of their own, as clients of MLServer and Triton send them."""

import struct

import pytest

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import InputSpec, TableRow, TextPair
from tests.serve.web.inference_protocol.conftest import TextHost
from tests.serve.web.inference_protocol.test_infer import binary, data_of, infer, inputs_on_record

VISITORS = {
    "age": ColumnConfig(kind="integer"),
    "income": ColumnConfig(missing=True),
    "member": ColumnConfig(kind="boolean"),
    "flag": ColumnConfig(kind="numeric", missing=True),
    "plan": ColumnConfig(kind="category", values=("basic", "full")),
    "note": ColumnConfig(kind="text", missing=True),
}

GOOD = {
    "age": ("INT64", [41, 30]),
    "income": ("FP64", [20.5, None]),
    "member": ("BOOL", [True, False]),
    "flag": ("FP32", [1, None]),
    "plan": ("BYTES", ["full", "basic"]),
    "note": ("BYTES", ["", "a note"]),
}


@pytest.fixture
def hosts(hosts):
    visitors = TextHost(InputSpec(kind="table", columns=VISITORS))
    return {**hosts, "people": visitors, "letters": TextHost(InputSpec(kind="text_pair"))}


def columns(changes=(), *, without=(), shape=(2,)):
    """The tensors of two rows, some of them changed."""
    told = {**GOOD, **dict(changes)}
    return {
        "inputs": [
            {"name": name, "datatype": datatype, "shape": [len(data), *shape[1:]], "data": data}
            for name, (datatype, data) in told.items()
            if name not in without
        ]
    }


ROWS = [TableRow((41.0, 20.5, 1.0, 1.0, "full", None)), TableRow((30.0, None, 0.0, None, "basic", "a note"))]


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_a_tensor_for_each_column_is_a_table(texts, hosts, database, shape):
    data_of(infer(texts, "people", columns(shape=shape)))
    assert hosts["people"].asked[0][0] == ROWS
    first = {"age": 41, "income": 20.5, "member": True, "flag": 1.0, "plan": "full", "note": None}
    assert inputs_on_record(database)[0] == first


def test_the_order_of_the_tensors_does_not_matter(texts, hosts):
    content = columns()
    content["inputs"].reverse()
    data_of(infer(texts, "people", content))
    assert hosts["people"].asked[0][0] == ROWS


@pytest.mark.parametrize(
    ("column", "datatype", "data"),
    [
        ("age", "INT8", [41, 30]),
        ("age", "INT16", [41, 30]),
        ("age", "INT32", [41, 30]),
        ("age", "UINT8", [41, 30]),
        ("age", "UINT16", [41, 30]),
        ("age", "UINT32", [41, 30]),
        ("age", "UINT64", [41, 30]),
        ("age", "FP16", [41, 30]),
        ("age", "FP32", [41.0, 30.0]),
        ("age", "FP64", [41, 30]),
        ("member", "INT32", [1, 0]),
        ("member", "FP64", [1.0, 0.0]),
        ("flag", "FP64", [1.0, None]),
    ],
)
def test_numbers_come_in_any_datatype_that_holds_them(texts, hosts, column, datatype, data):
    data_of(infer(texts, "people", columns({column: (datatype, data)})))
    assert hosts["people"].asked[0][0] == ROWS


def test_a_column_that_may_be_missing_may_be_left_out(texts, hosts):
    data_of(infer(texts, "people", columns(without=("income", "note"))))
    assert hosts["people"].asked[0][0][0] == TableRow((41.0, None, 1.0, 1.0, "full", None))


def test_columns_come_as_bytes_behind_the_json(texts, hosts):
    raw = [
        struct.pack("<2q", 41, 30),
        struct.pack("<2d", 20.5, float("nan")),
        b"\1\0",
        struct.pack("<2f", 1, float("nan")),
        struct.pack("<I4sI5s", 4, b"full", 5, b"basic"),
        struct.pack("<II6s", 0, 6, b"a note"),
    ]
    tensors = [
        {"name": name, "datatype": datatype, "shape": [2], "parameters": {"binary_data_size": len(part)}}
        for (name, (datatype, _)), part in zip(GOOD.items(), raw, strict=True)
    ]
    data_of(texts.post("/v2/models/people/infer", **binary({"inputs": tensors}, *raw)))
    assert hosts["people"].asked[0][0] == ROWS


def test_pairs_of_texts_are_two_tensors(texts, hosts):
    sides = {"text": "a", "text_pair": "b"}
    inputs = [{"name": side, "datatype": "BYTES", "shape": [1], "data": [text]} for side, text in sides.items()]
    data_of(infer(texts, "letters", {"inputs": inputs}))
    assert hosts["letters"].asked[0][0] == [TextPair(text="a", text_pair="b")]
    whole = {**inputs[0], "name": "input", "data": ['{"text": "a", "text_pair": "b"}']}
    data_of(infer(texts, "letters", {"inputs": [whole]}))
    assert hosts["letters"].asked[1][0] == [TextPair(text="a", text_pair="b")]
    refused = infer(texts, "letters", {"inputs": inputs[:1]})
    assert (refused.status_code, "no tensor 'text_pair'" in refused.json()["error"]) == (400, True)


def test_metadata_have_a_tensor_for_each_column(texts):
    told = {one["name"]: (one["datatype"], one["shape"]) for one in texts.get("/v2/models/people").json()["inputs"]}
    datatypes = {"age": "INT64", "income": "FP64", "member": "BOOL", "flag": "FP64", "plan": "BYTES", "note": "BYTES"}
    assert told == {name: (datatype, [-1]) for name, datatype in datatypes.items()}


REFUSED = {
    "an unknown name": (columns({"agee": ("INT64", [1, 2])}), "inputs.6.name: 'agee' is not one of"),
    "a column that is not there": (columns(without=["age"]), "inputs: there is no tensor 'age', and this model needs"),
    "whole rows beside columns": (columns({"input": ("BYTES", ["[]", "[]"])}), "inputs.6.name: 'input' is not one of"),
    "another number of rows": (columns({"plan": ("BYTES", ["full"])}), "inputs.4.shape: it has 1 rows, and"),
    "a column with a width": (
        {"inputs": [{**columns()["inputs"][0], "shape": [2, 2], "data": [1, 2, 3, 4]}, *columns()["inputs"][1:]]},
        "inputs.0.shape: it is [2, 2]; a column is [-1] or [-1, 1]",
    ),
    "texts in the place of numbers": (
        columns({"age": ("BYTES", ["41", "30"])}),
        "inputs.0.datatype: 'age' is a column of the kind integer and comes as",
    ),
    "numbers in the place of texts": (columns({"plan": ("INT64", [1, 0])}), "kind category and comes as BYTES; not as"),
    "true in the place of a number": (columns({"age": ("BOOL", [True, False])}), "inputs.0.datatype: 'age' is"),
    "a number that is no whole one": (columns({"age": ("FP64", [41.5, 30])}), "row 0: input.age: a whole number"),
    "a number that is no truth": (columns({"member": ("INT32", [2, 0])}), "row 0: input.member: true or false"),
    "an unknown category": (columns({"plan": ("BYTES", ["full", "half"])}), "row 1: input.plan: 'half' is not one of"),
    "a missing number that is needed": (columns({"age": ("FP64", [None, 3])}), "row 0: input.age: a value is missing"),
    "a missing text that is needed": (columns({"plan": ("BYTES", ["", "full"])}), "row 0: input.plan: '' is not one"),
    "null as a text": (columns({"note": ("BYTES", [None, "a"])}), "inputs.5.data: of BYTES, the elements are texts"),
    "null as a whole number": (columns({"age": ("INT64", [None, 3])}), "inputs.0.data: there are elements that are no"),
    "a number beyond its datatype": (columns({"age": ("INT8", [300, 3])}), "inputs.0.data: of INT8, the elements are"),
    "a number beyond every datatype": (columns({"age": ("INT64", [2**70, 3])}), "inputs.0.data: there are elements"),
    "a number that FP16 makes infinite": (columns({"income": ("FP16", [1e6, 3])}), "row 0: input.income: a finite"),
    "half a surrogate pair": (b'{"inputs": [{"name": "note", "data": ["\\ud800"]}]}', "the body is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_do_not_fit_are_refused(texts, what, hosts, database):
    content, message = REFUSED[what]
    sent = {"content": content} if isinstance(content, bytes) else {"json": content}
    refused = texts.post("/v2/models/people/infer", **sent)
    assert refused.status_code == 400, refused.text
    assert message in refused.json()["error"]
    assert hosts["people"].asked == []
    assert inputs_on_record(database) == []


def test_a_column_comes_once(texts):
    content = columns()
    content["inputs"].append(content["inputs"][0])
    refused = infer(texts, "people", content)
    assert (refused.status_code, "the column 'age' comes twice" in refused.json()["error"]) == (400, True)
