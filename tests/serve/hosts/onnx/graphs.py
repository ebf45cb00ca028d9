"""Small graphs for tests: made with the onnx library, or of fitted models with skl2onnx."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from demur.serve.config.file import Config

OPSET = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]


def configured(file, labels=("a", "b"), *, task="multiclass", rename=None, scores=("softmax_response",), **host):
    """A model with this graph."""
    score = scores[0] if task != "multilabel" else "binary_entropy"
    section = {
        "task": {"kind": task, "labels": list(labels)} | ({"rename": rename} if rename else {}),
        "host": {"kind": "onnx", "file": str(file), **host},
        "scores": [score, *scores[1:]],
        "confidence": {"score": score},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    return Config.model_validate({"models": {"mine": section}}).models["mine"]


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def saved(path, nodes, inputs, outputs, weights=(), **more):
    """Write a graph; `weights` are arrays by name."""
    initial = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initial)
    model = helper.make_model(graph, opset_imports=more.pop("opsets", OPSET), ir_version=8)
    onnx.save_model(model, path, **more)
    return path


def linear(path, *, columns=3, labels=2, softmax="probabilities", rows=None, kind=TensorProto.FLOAT, out="logits"):
    """A linear layer, with a softmax after it where it is named. Its first weights are 1, 2, 3 and so on."""
    types = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16}
    weights = (np.arange(columns * labels).reshape(columns, labels) / 10).astype(types[kind])
    nodes = [helper.make_node("MatMul", ["x", "w"], [out])]
    outputs = [value(out, [rows, labels], kind)]
    if softmax:
        nodes.append(helper.make_node("Softmax", [out], [softmax], axis=1))
        outputs.append(value(softmax, [rows, labels], kind))
    saved(path, nodes, [value("x", [rows, columns], kind)], outputs, {"w": weights})
    return weights
