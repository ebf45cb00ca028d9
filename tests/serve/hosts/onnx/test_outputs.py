"""What a graph gives: which output is read, as what, and what is said where that is not clear or not right."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from scipy.special import expit, softmax
from skl2onnx import to_onnx
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.kinds import check_here
from tests.serve.hosts.onnx.graphs import configured, linear, saved, value
from tests.serve.hosts.onnx.running import rows_of, run

ROWS = np.array([[0.5, -1.0, 2.0], [1.0, 1.0, 1.0]])


def test_logits_and_probabilities_say_the_same(tmp_path):
    path = tmp_path / "m.onnx"
    weights = linear(path)
    own = softmax(ROWS @ weights, axis=1)
    for told in ({}, {"output": "logits"}, {"output": "probabilities"}, {"output": "logits", "gives": "logits"}):
        assert np.abs(run(configured(path, **told), rows_of(ROWS))[1].probabilities - own).max() < 1e-6, told
    logits = run(configured(path, output="logits"), rows_of(ROWS))[1].logits
    assert np.abs(logits - ROWS @ weights).max() < 1e-6


@pytest.mark.parametrize(
    ("out", "made", "task", "reads"),
    [
        ("y", "Softmax", "multiclass", "probabilities"),
        ("y", "LogSoftmax", "multiclass", "logits"),
        ("y", "Sigmoid", "multilabel", "probabilities"),
        ("my_logits", "Identity", "multiclass", "logits"),
        ("Probs", "Softmax", "multiclass", "probabilities"),
    ],
)
def test_the_name_or_the_last_operator_shows_what_an_output_has(tmp_path, out, made, task, reads):
    nodes = [helper.make_node(made, ["x"], [out])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value(out, [None, 2])])
    x = np.array([[0.3, -0.2]])
    _, output = run(configured(path, task=task), rows_of(x))
    right = expit(x) if task == "multilabel" else softmax(x, axis=1)
    assert np.abs(output.probabilities - right).max() < 1e-6
    _, told = run(configured(path, task=task, gives=reads), rows_of(x))
    assert told.probabilities.tolist() == output.probabilities.tolist()


@pytest.mark.parametrize(
    ("made", "task"), [("Identity", "multiclass"), ("Sigmoid", "multiclass"), ("Softmax", "multilabel")]
)
def test_what_nothing_shows_has_to_be_said(tmp_path, made, task):
    nodes = [helper.make_node(made, ["x"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value("y", [None, 2])])
    with pytest.raises(BadModel, match=r"host\.gives: nothing shows whether 'y' has probabilities or logits; write"):
        check_here(configured(path, task=task))


def test_numbers_that_are_no_probabilities_are_not_read_as_such(tmp_path):
    linear(tmp_path / "m.onnx")
    model = configured(tmp_path / "m.onnx", output="logits", gives="probabilities")
    with pytest.raises(BadModel, match=r"host\.file: on an example, .*labels that exclude each other come to 1"):
        check_here(model)


def one_column(path, made="Sigmoid", out="y"):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node(made, ["z"], [out])]
    weights = np.array([[1.0], [-2.0], [0.5]], np.float32)
    saved(path, nodes, [value("x", [None, 3])], [value(out, [None, 1])], {"w": weights})
    return weights


def test_one_column_is_read_only_where_it_is_said_whose_it_is(tmp_path):
    path = tmp_path / "m.onnx"
    weights = one_column(path)
    with pytest.raises(BadModel, match=r"host\.gives: an output with one column .*`gives: positive_probability`.*'b'"):
        check_here(configured(path, task="binary"))
    with pytest.raises(BadModel, match=r"task\.labels: 2 are named, and 'y' of the graph has 1 columns; write"):
        check_here(configured(path, task="binary", output="y", gives="probabilities"))
    _, output = run(configured(path, task="binary", gives="positive_probability"), rows_of(ROWS))
    right = expit(ROWS @ weights)
    assert np.abs(output.probabilities - np.hstack([1 - right, right])).max() < 1e-6
    one_column(path, made="Identity")
    _, output = run(configured(path, task="binary", gives="positive_logit"), rows_of(ROWS))
    assert np.abs(output.probabilities[:, 1:] - right).max() < 1e-6
    with pytest.raises(BadModel, match=r"host\.gives: positive_logit is for binary tasks, and this one is multiclass"):
        check_here(configured(path, gives="positive_logit"))


def test_one_column_is_not_read_where_there_are_two(tmp_path):
    linear(tmp_path / "m.onnx")
    with pytest.raises(BadModel, match=r"host\.gives: positive_probability is read of an output with one column, and"):
        check_here(configured(tmp_path / "m.onnx", task="binary", gives="positive_probability"))


def test_an_output_that_there_is_not_is_told_with_those_there_are(tmp_path):
    linear(tmp_path / "m.onnx")
    for key in ("output", "embedding"):
        with pytest.raises(BadModel, match=rf"host\.{key}: 'probabilty'.*probabilities"):
            check_here(configured(tmp_path / "m.onnx", **{key: "probabilty"}))


def test_two_outputs_that_may_be_meant_want_a_name(tmp_path):
    nodes = [helper.make_node("Softmax", ["x"], ["first"]), helper.make_node("Softmax", ["x"], ["second"])]
    path = saved(
        tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value("first", [None, 2]), value("second", [None, 2])]
    )
    with pytest.raises(BadModel, match=r"host\.output: more than one output may have the probabilities: first .*name"):
        check_here(configured(path))
    assert run(configured(path, output="second"), rows_of([[1, 1]]))[1].probabilities.tolist() == [[0.5, 0.5]]


def test_a_number_of_labels_that_is_not_the_graphs(tmp_path):
    linear(tmp_path / "m.onnx")
    with pytest.raises(BadModel, match=r"task\.labels: 3 are named, and 'probabilities' of the graph has 2 columns"):
        check_here(configured(tmp_path / "m.onnx", ("a", "b", "c"), output="probabilities"))
    with pytest.raises(BadModel, match=r"host\.output: no output has 3 numbers for each row"):
        check_here(configured(tmp_path / "m.onnx", ("a", "b", "c")))


def test_a_graph_that_only_predicts_is_refused(tmp_path):
    nodes = [helper.make_node("ArgMax", ["x"], ["label"], axis=1, keepdims=0)]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], [value("label", [None], TensorProto.INT64)])
    with pytest.raises(BadModel, match=r"export the model with its probabilities; the graph gives label"):
        check_here(configured(path))
    with pytest.raises(BadModel, match=r"host\.output: label tensor\(int64\)\[\?\] has no probabilities or logits"):
        check_here(configured(path, output="label"))


def test_each_label_of_several_by_itself(tmp_path):
    data, truth = make_multilabel_classification(80, n_features=6, n_classes=3, random_state=0)
    fitted = OneVsRestClassifier(LogisticRegression()).fit(data, truth)
    path = tmp_path / "m.onnx"
    data = data.astype(np.float32)
    path.write_bytes(to_onnx(fitted, data[:1], options={id(fitted): {"zipmap": False}}).SerializeToString())
    _, output = run(configured(path, ("x", "y", "z"), task="multilabel"), rows_of(data))
    assert np.abs(output.probabilities - fitted.predict_proba(data)).max() < 1e-6


def with_embedding(path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "v"], ["logits"]),
    ]
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(3, 4)).astype(np.float32), "v": rng.normal(size=(4, 2)).astype(np.float32)}
    saved(path, nodes, [value("x", [None, 3])], [value("logits", [None, 2]), value("hidden", [None, 4])], weights)
    return weights


def test_an_embedding_is_given_where_a_score_needs_it(tmp_path):
    path = tmp_path / "m.onnx"
    weights = with_embedding(path)
    model = configured(path, embedding="hidden", scores=("softmax_response", "mahalanobis"))
    assert run(model, rows_of(ROWS))[1].embedding is None
    _, output = run(model, rows_of(ROWS), "embedding")
    assert np.abs(output.embedding - ROWS @ weights["w"]).max() < 1e-6
    assert np.abs(output.logits - ROWS @ weights["w"] @ weights["v"]).max() < 1e-5


def test_parts_that_the_graph_does_not_give(tmp_path):
    path = tmp_path / "m.onnx"
    with_embedding(path)
    with pytest.raises(BadModelOutput, match=r"needs the embedding, and no output .*write its name as host\.embedding"):
        run(configured(path), rows_of(ROWS), "embedding")
    with pytest.raises(BadModelOutput, match="needs the mc probabilities, which a graph of ONNX does not give"):
        run(configured(path), rows_of(ROWS), "mc_probabilities")
    nodes = [
        helper.make_node("Softmax", ["x"], ["probabilities"]),
        helper.make_node("Unsqueeze", ["x", "at"], ["deep"]),
    ]
    outputs = [value("probabilities", [None, 2]), value("deep", [None, 2, 1])]
    saved(path, nodes, [value("x", [None, 2])], outputs, {"at": np.array([2])})
    with pytest.raises(BadModel, match=r"host\.embedding: deep .* is no matrix of numbers with a row for each input"):
        check_here(configured(path, embedding="deep"))


def test_an_embedding_with_nan_holds_its_row_alone(tmp_path):
    nodes = [helper.make_node("Log", ["x"], ["hidden"]), helper.make_node("Softmax", ["x"], ["probabilities"])]
    outputs = [value("probabilities", [None, 2]), value("hidden", [None, 2])]
    path = saved(tmp_path / "m.onnx", nodes, [value("x", [None, 2])], outputs)
    _, output = run(configured(path, embedding="hidden"), rows_of([[1, 1], [-1, 1]]), "embedding")
    assert output.usable().tolist() == [True, False]
