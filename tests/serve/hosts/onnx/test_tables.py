"""Graphs that take rows of a table: models of scikit-learn, converted, and graphs that were made by hand."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx import TensorProto, helper
from scipy.special import softmax
from skl2onnx import convert_sklearn, to_onnx
from skl2onnx.common.data_types import (
    BooleanTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import InputLimits, InvalidRequest, TableRow
from demur.serve.contract.reading.inputs import read_input
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.kinds import check_here
from tests.serve.hosts.onnx.graphs import configured, linear, saved, value
from tests.serve.hosts.onnx.running import rows_of, run

LIMITS = InputLimits(text_characters=1000)
FRUITS = ("apple", "medlar", "pear")


def iris(names=FRUITS):
    data, classes = load_iris(return_X_y=True)
    return data.astype(np.float32), np.array(names)[classes]


def said_by_onnxruntime(path, feeds):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        RandomForestClassifier(20, random_state=0),  # without a scaler, whose rounding would move rows over a cut
    ],
)
def test_a_model_of_scikit_learn_says_what_it_says_itself(tmp_path, estimator, zipmap):
    data, names = iris()
    fitted = estimator.fit(data, names)
    path = tmp_path / "iris.onnx"
    path.write_bytes(to_onnx(fitted, data[:1], options={id(fitted): {"zipmap": zipmap}}).SerializeToString())
    spec, output = run(configured(path, FRUITS), rows_of(data))
    assert list(spec.columns) == ["x0", "x1", "x2", "x3"]
    assert np.abs(output.probabilities - fitted.predict_proba(data)).max() < 1e-6
    own = said_by_onnxruntime(path, {"X": data})[1]
    own = [[row[name] for name in FRUITS] for row in own] if zipmap else own
    assert np.abs(output.probabilities - own).max() < 1e-6
    assert output.usable().all()


def test_labels_are_found_by_their_names_and_not_by_their_place(tmp_path):
    data, names = iris()
    fitted = LogisticRegression(max_iter=500).fit(data, names)
    path = tmp_path / "iris.onnx"
    path.write_bytes(to_onnx(fitted, data[:1]).SerializeToString())
    _, output = run(configured(path, ("pear", "apple", "medlar")), rows_of(data[:5]))
    assert np.abs(output.probabilities - fitted.predict_proba(data[:5])[:, [2, 0, 1]]).max() < 1e-6
    _, renamed = run(configured(path, ("p", "apple", "medlar"), rename={"pear": "p"}), rows_of(data[:5]))
    assert renamed.probabilities.tolist() == output.probabilities.tolist()
    with pytest.raises(BadModel, match=r"task\.labels: the graph gives numbers for 'apple', 'medlar', 'pear'"):
        check_here(configured(path, ("pear", "apple", "plum")))
    with pytest.raises(BadModel, match=r"task\.labels: the graph gives numbers for"):
        check_here(configured(path, ("pear", "apple")))


def test_numbers_for_classes_are_places_unless_labels_are_numbers(tmp_path):
    data, classes = load_iris(return_X_y=True)
    data = data.astype(np.float32)
    fitted = LogisticRegression(max_iter=500).fit(data, classes)
    path = tmp_path / "iris.onnx"
    path.write_bytes(to_onnx(fitted, data[:1]).SerializeToString())
    own = fitted.predict_proba(data[:5])
    assert np.abs(run(configured(path, FRUITS), rows_of(data[:5]))[1].probabilities - own).max() < 1e-6
    turned = run(configured(path, ("2", "0", "1")), rows_of(data[:5]))[1].probabilities
    assert np.abs(turned - own[:, [2, 0, 1]]).max() < 1e-6


def test_columns_in_another_order_than_the_labels_are_noticed(tmp_path):
    """A matrix does not say which column is which. The label that the graph predicts beside it does."""
    data, names = iris()
    fitted = MLPClassifier(hidden_layer_sizes=(8,), max_iter=2000, random_state=0).fit(data, names)
    path = tmp_path / "iris.onnx"
    options = {id(fitted): {"zipmap": False}}
    path.write_bytes(to_onnx(fitted, data[:1], options=options, target_opset=17).SerializeToString())
    right = run(configured(path, FRUITS), rows_of(data))[1]
    assert right.usable().all()
    with pytest.raises(BadModel, match=r"task\.labels: on an example, .*task\.labels may be in another order"):
        check_here(configured(path, ("medlar", "pear", "apple")))
    with pytest.raises(BadModel, match=r"task\.labels: on an example, the graph predicts .* not among task\.labels"):
        check_here(configured(path, ("a", "b", "c")))


def frame():
    return pd.DataFrame(
        {
            "age": [30.0, 41.5, 52.0, 63.0, 20.5, 75.0],
            "visits": [1, 5, 2, 8, 0, 9],
            "job": ["clerk", "nurse", "clerk", "nurse", "clerk", "nurse"],
            "smoker": [True, False, True, True, False, True],
        }
    )


def of_a_frame(path):
    scaled = [
        ("numbers", StandardScaler(), ["age", "visits"]),
        ("job", OneHotEncoder(handle_unknown="ignore"), ["job"]),
        ("smoker", "passthrough", ["smoker"]),
    ]
    fitted = make_pipeline(ColumnTransformer(scaled), LogisticRegression())
    fitted.fit(frame(), ["well", "ill", "well", "ill", "well", "ill"])
    types = [
        ("age", FloatTensorType([None, 1])),
        ("visits", Int64TensorType([None, 1])),
        ("job", StringTensorType([None, 1])),
        ("smoker", BooleanTensorType([None, 1])),
    ]
    path.write_bytes(convert_sklearn(fitted, initial_types=types).SerializeToString())
    return fitted


def test_a_graph_with_an_input_for_each_column(tmp_path):
    path = tmp_path / "frame.onnx"
    fitted = of_a_frame(path)
    spec, _ = run(configured(path, ("ill", "well"), task="binary"), [TableRow((30.0, 1.0, "clerk", 1.0))])
    kinds = {name: column.kind for name, column in spec.columns.items()}
    assert kinds == {"age": "number", "visits": "integer", "job": "category", "smoker": "boolean"}
    told = frame().to_dict("records")
    inputs = [read_input({**row, "visits": int(row["visits"])}, spec, LIMITS) for row in told]
    _, output = run(configured(path, ("ill", "well"), task="binary"), inputs)
    assert np.abs(output.probabilities - fitted.predict_proba(frame())).max() < 1e-6


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"age": "old"}, r"input\.age: a number is wanted here"),
        ({"visits": 1.5}, r"input\.visits: a whole number of at most"),
        ({"visits": 2**53}, r"input\.visits: a whole number of at most"),
        ({"visits": None}, r"input\.visits: a value is missing"),
        ({"age": float("nan")}, r"input\.age: a value is missing"),
        ({"job": None}, r"input\.job: a value is missing"),
        ({"smoker": 1}, r"input\.smoker: true or false is wanted here"),
        ({"shoe": 43}, r"input\.shoe: "),
    ],
)
def test_a_row_that_does_not_fit_is_refused_at_the_door(tmp_path, row, why):
    path = tmp_path / "frame.onnx"
    of_a_frame(path)
    good = {"age": 30.0, "visits": 1, "job": "clerk", "smoker": True}
    spec, _ = run(configured(path, ("ill", "well")), [TableRow((30.0, 1.0, "clerk", 1.0))])
    with pytest.raises(InvalidRequest, match=why):
        read_input(good | row, spec, LIMITS)


def test_columns_may_be_described_and_come_in_the_order_of_whoever_does(tmp_path):
    path = tmp_path / "frame.onnx"
    fitted = of_a_frame(path)
    columns = {"job": ["clerk", "nurse"], "smoker": "boolean", "visits": "integer", "age": {"min": 0, "max": 130}}
    model = configured(path, ("ill", "well"), input={"kind": "table", "columns": columns})
    spec, output = run(model, [TableRow(("nurse", 1.0, 5.0, 41.5))])
    assert list(spec.columns) == ["job", "smoker", "visits", "age"]
    told = pd.DataFrame({"age": [41.5], "visits": [5], "job": ["nurse"], "smoker": [True]})
    assert np.abs(output.probabilities - fitted.predict_proba(told)).max() < 1e-6


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"job": None}, r"host\.input\.columns: the graph takes job as well"),
        ({"shoe": "number"}, r"host\.input\.columns\.shoe: "),
        ({"visits": "number"}, r"host\.input\.columns\.visits: the graph takes tensor\(int64\) there.*write integer"),
        ({"job": "number"}, r"host\.input\.columns\.job: the graph takes tensor\(string\) there"),
        ({"smoker": "integer"}, r"host\.input\.columns\.smoker: .*write boolean"),
        ({"job": {"kind": "category", "missing": True}}, r"job: a missing value cannot be told to a graph"),
        ({"visits": {"kind": "integer", "missing": True}}, r"visits: a missing value cannot be told to a graph"),
    ],
)
def test_columns_that_the_graph_does_not_take_are_refused(tmp_path, change, why):
    path = tmp_path / "frame.onnx"
    of_a_frame(path)
    columns = {"age": "number", "visits": "integer", "job": "text", "smoker": "boolean"} | change
    columns = {name: column for name, column in columns.items() if column is not None}
    with pytest.raises(BadModel, match=why):
        check_here(configured(path, ("ill", "well"), input={"kind": "table", "columns": columns}))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        (["a", "b"], r"host\.input\.columns: 2 columns are named, and the graph takes 3: x tensor\(float\)\[\?, 3\]"),
        (["a", "b", "c", "d"], r"4 columns are named, and the graph takes 3"),
    ],
)
def test_another_width_than_the_graphs_is_refused(tmp_path, columns, why):
    linear(tmp_path / "m.onnx")
    told = {"kind": "table", "columns": dict.fromkeys(columns, "number")}
    with pytest.raises(BadModel, match=why):
        check_here(configured(tmp_path / "m.onnx", input=told))


def test_a_free_width_wants_columns(tmp_path):
    node = helper.make_node("Softmax", ["x"], ["probabilities"], axis=1)
    path = saved(tmp_path / "m.onnx", [node], [value("x", [None, None])], [value("probabilities", [None, None])])
    with pytest.raises(BadModel, match=r"host\.input\.columns: the graph does not say how many columns"):
        check_here(configured(path))
    told = {"kind": "table", "columns": {"a": "number", "b": "number"}}
    _, output = run(configured(path, input=told), [TableRow((0.0, 1.0))])
    assert np.allclose(output.probabilities, softmax([[0.0, 1.0]], axis=1), atol=1e-6)
    with pytest.raises(BadModel, match=r"it should give \[2, 3\], a column for each label"):
        check_here(configured(path, ("a", "b", "c"), input=told))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
def test_numbers_of_every_precision(tmp_path, kind):
    weights = linear(tmp_path / "m.onnx", kind=kind).astype(float)
    row = np.array([0.5, -1.0, 2.0])
    _, output = run(configured(tmp_path / "m.onnx"), rows_of([row]))
    allowed = 2e-3 if kind == TensorProto.FLOAT16 else 1e-6
    assert np.abs(output.probabilities - softmax(row @ weights)).max() < allowed


def test_a_number_that_the_type_cannot_hold_holds_its_own_row_alone(tmp_path):
    linear(tmp_path / "m.onnx")
    _, output = run(configured(tmp_path / "m.onnx"), rows_of([[1, 2, 3], [1e300, 0, 0], [0, 0, 1e-300]]))
    assert output.usable().tolist() == [True, False, True]
    assert output.why_unusable()[1] == "x0: 1e+300 does not fit into tensor(float)"


def test_a_missing_number_is_nan_to_a_graph_that_is_said_to_take_it(tmp_path):
    linear(tmp_path / "m.onnx")
    columns = {"a": {"missing": True}, "b": "number", "c": "number"}
    _, output = run(
        configured(tmp_path / "m.onnx", input={"kind": "table", "columns": columns}),
        [TableRow((None, 1.0, 1.0)), TableRow((0.0, 1.0, 1.0))],
    )
    assert output.usable().tolist() == [False, True]  # this graph makes NaN of NaN, which is held


def test_whole_numbers_fill_whole_numbers(tmp_path):
    nodes = [
        helper.make_node("Cast", ["n"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("Softmax", ["x"], ["probabilities"], axis=1),
    ]
    path = saved(
        tmp_path / "m.onnx", nodes, [value("n", [None, 2], TensorProto.INT8)], [value("probabilities", [None, 2])]
    )
    spec, output = run(configured(path), rows_of([[1, 2], [1, 200], [-128, 127]]))
    assert spec.columns["x0"] == ColumnConfig(kind="integer")
    assert output.why_unusable() == [None, "x1: 200 does not fit into tensor(int8)", None]
    assert np.allclose(output.probabilities[0], softmax([1, 2]), atol=1e-6)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_graph_that_is_fixed_to_some_rows_gives_the_same(tmp_path, rows):
    linear(tmp_path / "free.onnx")
    linear(tmp_path / "fixed.onnx", rows=rows)
    inputs = rows_of(np.random.default_rng(0).normal(size=(6, 3)))
    free = run(configured(tmp_path / "free.onnx"), inputs)[1].probabilities
    fixed = run(configured(tmp_path / "fixed.onnx"), inputs)[1].probabilities
    assert np.abs(free - fixed).max() < 1e-6


def test_a_row_with_nan_spoils_no_other(tmp_path):
    nodes = [helper.make_node("Log", ["x"], ["logits"])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value("logits", [None, 2])])
    _, output = run(configured(path), rows_of([[1, 2], [-1, 2], [3, 3]]))
    assert output.usable().tolist() == [True, False, True]


def test_a_graph_that_fails_on_a_row_says_so(tmp_path):
    """This graph takes element `n` of two: other numbers are outside."""
    nodes = [
        helper.make_node("Gather", ["table", "n"], ["rows"], axis=0),
        helper.make_node("Squeeze", ["rows", "one"], ["probabilities"]),
    ]
    path = saved(
        tmp_path / "m.onnx",
        nodes,
        [value("n", [None, 1], TensorProto.INT64)],
        [value("probabilities", [None, 2])],
        {"table": np.array([[0.2, 0.8], [0.9, 0.1]], np.float32), "one": np.array([1])},
    )
    assert run(configured(path), rows_of([[1], [0]]))[1].probabilities[:, 0].tolist() == pytest.approx([0.9, 0.2])
    with pytest.raises(BadModelOutput, match=r"onnxruntime could not run the graph: .*indices element out of"):
        run(configured(path), rows_of([[7]]))


def test_float_columns_as_skl2onnx_writes_them_for_a_frame_of_numbers(tmp_path):
    data, names = iris()
    told = pd.DataFrame(data, columns=["a", "b", "c", "d"])
    scaled = ColumnTransformer([("all", StandardScaler(), list(told))])
    fitted = make_pipeline(scaled, LogisticRegression(max_iter=500)).fit(told, names)
    path = tmp_path / "m.onnx"
    types = [(name, FloatTensorType([None, 1])) for name in told]
    path.write_bytes(convert_sklearn(fitted, initial_types=types).SerializeToString())
    spec, output = run(configured(path, FRUITS), rows_of(data[:20]))
    assert list(spec.columns) == ["a", "b", "c", "d"]
    assert np.abs(output.probabilities - fitted.predict_proba(told)[:20]).max() < 1e-6
