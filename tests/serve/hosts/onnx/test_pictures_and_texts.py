"""Graphs that take pictures or texts."""

import base64
import io

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image
from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from demur.serve.contract.inputs import InputLimits, TextPair
from demur.serve.contract.reading.inputs import read_input
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_here
from tests.serve.hosts.onnx.graphs import configured, saved, value
from tests.serve.hosts.onnx.running import run

LIMITS = InputLimits(text_characters=1000)


def brightness(path, shape, kind=TensorProto.FLOAT, axes=(1, 2, 3), scale=1.0):
    """Probabilities of dark and light: the mean of all pixels, divided by `scale`."""
    nodes = [
        helper.make_node("Cast", ["pixels"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["floats"], ["mean"], axes=list(axes), keepdims=0),
        helper.make_node("Div", ["mean", "scale"], ["light"]),
        helper.make_node("Unsqueeze", ["light", "axis"], ["column"]),
        helper.make_node("Sub", ["one", "column"], ["dark"]),
        helper.make_node("Concat", ["dark", "column"], ["probabilities"], axis=1),
    ]
    weights = {"scale": np.float32(scale), "axis": np.array([1]), "one": np.float32(1)}
    return saved(path, nodes, [value("pixels", shape, kind)], [value("probabilities", [None, 2])], weights)


@pytest.mark.parametrize("shape", [[None, 3, 4, 6], [None, 4, 6, 3], [1, 3, 4, 6]])
def test_pictures_come_in_the_graphs_layout(tmp_path, shape):
    path = brightness(tmp_path / "m.onnx", shape)
    picture = np.random.default_rng(0).random((3, 4, 6), dtype=np.float32)
    for told in ({}, {"input": "image"}):
        spec, output = run(configured(path, ("dark", "light"), **told), [picture, np.ones_like(picture)])
        assert (spec.kind, spec.channels, spec.height, spec.width) == ("image", 3, 4, 6)
        assert output.probabilities[:, 1].tolist() == pytest.approx([picture.mean(), 1], abs=1e-6)


def first_pixel(path, shape, order):
    """Logits: the pixel in the second row and third column, its first channel, against 0."""
    nodes = [
        helper.make_node("Slice", ["pixels", "from", "to"], ["one"]),
        helper.make_node("Reshape", ["one", "flat"], ["column"]),
        helper.make_node("Mul", ["column", "zero"], ["other"]),
        helper.make_node("Concat", ["other", "column"], ["logits"], axis=1),
    ]
    at = {"c": 0, "h": 1, "w": 2}
    start = [0, *(at[axis] for axis in order)]
    end = [1000, *(at[axis] + 1 for axis in order)]
    weights = {
        "from": np.array(start),
        "to": np.array(end),
        "flat": np.array([-1, 1]),
        "zero": np.float32(0),
    }
    return saved(path, nodes, [value("pixels", shape)], [value("logits", [None, 2])], weights)


@pytest.mark.parametrize(("shape", "order"), [([None, 3, 4, 6], "chw"), ([None, 4, 6, 3], "hwc")])
def test_each_pixel_is_where_the_graph_looks_for_it(tmp_path, shape, order):
    path = first_pixel(tmp_path / "m.onnx", shape, order)
    picture = np.random.default_rng(0).random((3, 4, 6), dtype=np.float32)
    pixels = {"range": 255, "mean": [10.0, 20.0, 30.0], "std": [2.0, 4.0, 8.0]}
    _, plain = run(configured(path), [picture])
    assert plain.logits[0, 1] == pytest.approx(picture[0, 1, 2], abs=1e-6)
    _, scaled = run(configured(path, pixels=pixels), [picture])
    assert scaled.logits[0, 1] == pytest.approx((255 * picture[0, 1, 2] - 10) / 2, rel=1e-5)


def test_a_png_and_numbers_are_the_same_picture(tmp_path):
    path = brightness(tmp_path / "m.onnx", [None, 1, 8, 8])
    spec, _ = run(configured(path), [np.ones((1, 8, 8), np.float32)])
    shades = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    file = io.BytesIO()
    Image.fromarray(shades).save(file, "png")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    inputs = [read_input(url, spec, LIMITS), read_input((shades / 255).tolist(), spec, LIMITS)]
    _, output = run(configured(path), inputs)
    assert np.abs(output.probabilities[0] - output.probabilities[1]).max() < 1e-6
    assert output.probabilities[0, 1] == pytest.approx(shades.mean() / 255, abs=1e-6)


def test_a_png_of_another_size_is_resized(tmp_path):
    path = brightness(tmp_path / "m.onnx", [None, 3, 8, 8])
    spec, _ = run(configured(path), [np.ones((3, 8, 8), np.float32)])
    file = io.BytesIO()
    Image.fromarray(np.full((20, 13, 3), (255, 0, 51), dtype=np.uint8)).save(file, "png")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    _, output = run(configured(path), [read_input(url, spec, LIMITS)])
    assert output.probabilities[0, 1] == pytest.approx((255 + 51) / 3 / 255, abs=1e-6)


def test_a_graph_of_bytes_gets_bytes(tmp_path):
    path = brightness(tmp_path / "m.onnx", [None, 1, 2, 2], TensorProto.UINT8, scale=255.0)
    pixels = np.array([[[0, 51], [102, 255]]], dtype=np.uint8)
    _, output = run(configured(path), [pixels, pixels / np.float32(255)])
    assert output.probabilities[:, 1].tolist() == pytest.approx([pixels.mean() / 255] * 2, abs=1e-6)
    with pytest.raises(BadModel, match=r"host\.pixels: the graph takes pixels as uint8"):
        check_here(configured(path, pixels={"range": 255}))


@pytest.mark.parametrize(
    ("shape", "told", "why"),
    [
        ([None, 3, 4, 3], {}, r"host\.layout: pixels tensor\(float\)\[\?, 3, 4, 3\] does not show where"),
        ([None, 5, 4, 6], {}, r"host\.layout: "),
        ([None, 5, 4, 6], {"layout": "nchw"}, r"host\.input: an image has 1 or 3 channels, and the graph takes"),
        ([None, 3, None, None], {}, r"host\.input\.height: the graph does not say it: .*write `input: \{kind: image"),
        (
            [None, 3, 4, 6],
            {"input": {"kind": "image", "channels": 3, "height": 4, "width": 5}},
            r"host\.input\.width: it is 5, and the graph takes 6",
        ),
        ([None, 3, 4, 6], {"pixels": {"mean": [1.0, 2.0]}}, r"host\.pixels\.mean: it has 2 numbers"),
        ([None, 3, 4, 6], {"input": "text"}, r"host\.input: it needs one input of texts, and the graph takes pixels"),
        ([None, 3, 4, 6], {"input": "table"}, r"host\.input: the graph takes pixels .*which no row of a table fills"),
        ([None, 3, 4, 6], {"input": "bytes"}, r"host\.input: a graph takes a table, a text, .* and not bytes"),
    ],
)
def test_what_does_not_go_with_the_graphs_pictures(tmp_path, shape, told, why):
    path = brightness(tmp_path / "m.onnx", shape)
    with pytest.raises(BadModel, match=why):
        check_here(configured(path, ("dark", "light"), **told))


def test_free_sizes_are_those_of_the_configuration(tmp_path):
    path = brightness(tmp_path / "m.onnx", [None, 3, None, None])
    told = {"kind": "image", "channels": 3, "height": 5, "width": 7}
    spec, _ = run(configured(path, input=told), [np.ones((3, 5, 7), np.float32)])
    assert (spec.height, spec.width) == (5, 7)
    path = brightness(tmp_path / "m.onnx", [None, 3, 4, 3])
    spec, _ = run(configured(path, layout="nhwc"), [np.ones((3, 3, 4), np.float32)])
    assert (spec.height, spec.width) == (3, 4)


TEXTS = ["the lamp is dark", "all is well", "no light at all", "well done", "the power is out", "it works well"]


@pytest.mark.parametrize("shape", [[None], [None, 1]])
def test_texts(tmp_path, shape):
    fitted = make_pipeline(CountVectorizer(lowercase=False), LogisticRegression()).fit(TEXTS, [0, 1, 0, 1, 0, 1])
    types = [("texts", StringTensorType(shape))]
    path = tmp_path / "m.onnx"
    path.write_bytes(to_onnx(fitted, initial_types=types, options={id(fitted): {"zipmap": False}}).SerializeToString())
    spec, output = run(configured(path, ("bad", "good")), [*TEXTS, ""])
    assert spec.kind == "text"
    assert np.abs(output.probabilities - fitted.predict_proba([*TEXTS, ""])).max() < 1e-6


def test_a_locale_that_is_missing_is_told_with_a_way_out(tmp_path):
    node = helper.make_node("StringNormalizer", ["texts"], ["same"], locale="xx_YY", case_change_action="LOWER")
    inputs, outputs = [value("texts", [1, 1], TensorProto.STRING)], [value("same", [1, 1], TensorProto.STRING)]
    path = saved(tmp_path / "m.onnx", [node], inputs, outputs)
    with pytest.raises(BadModel, match=r"needs a locale that this machine does not have: .*install locales-all"):
        check_here(configured(path))


def test_pairs_of_texts(tmp_path):
    nodes = [
        helper.make_node("Equal", ["first", "second"], ["same"]),
        helper.make_node("Cast", ["same"], ["column"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["one", "column"], ["other"]),
        helper.make_node("Concat", ["other", "column"], ["probabilities"], axis=1),
    ]
    inputs = [value(name, [None, 1], TensorProto.STRING) for name in ("first", "second")]
    opsets = [helper.make_opsetid("", 19)]
    outputs = [value("probabilities", [None, 2])]
    path = saved(tmp_path / "m.onnx", nodes, inputs, outputs, {"one": np.float32(1)}, opsets=opsets)
    model = configured(path, ("differ", "same"), input="text_pair")
    spec, output = run(model, [TextPair(text="a", text_pair="a"), TextPair(text="a", text_pair="b")])
    assert spec.kind == "text_pair"
    assert output.probabilities[:, 1].tolist() == [1.0, 0.0]


def test_a_graph_of_tokens_is_told_that_it_needs_its_tokenizer(tmp_path):
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["floats", "axis"], ["sum"], keepdims=1),
        helper.make_node("Concat", ["sum", "sum"], ["logits"], axis=1),
    ]
    inputs = [value("input_ids", [None, None], TensorProto.INT64)]
    path = saved(tmp_path / "m.onnx", nodes, inputs, [value("logits", [None, 2])], {"axis": np.array([1])})
    with pytest.raises(BadModel, match=r"a graph that takes tokens needs its tokenizer; host it through a class"):
        check_here(configured(path, input="text"))
