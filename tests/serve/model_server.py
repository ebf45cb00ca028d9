"""A real server on this machine with a real model behind it, for `host: {kind: remote}`: plain JSON and the Open
Inference Protocol over HTTP, and whatever a test makes it do in their place."""

import asyncio
import json
import socket
import threading
from contextlib import contextmanager

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from demur.serve.contract.inference_protocol.tensors import NUMPY

COLUMNS = ["radius", "texture", "smoothness"]
LABELS = ["malignant", "benign"]


def cells():
    """Rows [n, 3] and classes [n] of a small table of measurements."""
    found = load_breast_cancer()
    return found.data[:, [0, 1, 4]], found.target


def trained():
    """A real classifier of these."""
    rows, classes = cells()
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(rows[::2], classes[::2])


class ModelServer:
    """Serves `predict`, a function of an array of rows. A test may put a function of a request into `instead`, which is
    asked before the model: what it returns is the response, unless that is None."""

    def __init__(self, predict):
        self.predict, self.instead, self.asked, self.headers = predict, None, [], []
        self.version, self.name, self.datatype = "3", "cancer", "FP32"
        self.metadata = {
            "name": "cancer",
            "versions": ["3"],
            "platform": "sklearn",
            "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, 3]}],
            "outputs": [{"name": "probabilities", "datatype": "FP64", "shape": [-1, 2]}],
        }
        app = FastAPI()
        app.post("/predict")(self.plain)
        app.get("/v2/models/{name}")(self.described)
        app.get("/v2/models/{name}/versions/{version}")(self.described)
        app.post("/v2/models/{name}/infer")(self.inferred)
        app.post("/v2/models/{name}/versions/{version}/infer")(self.inferred)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    async def plain(self, request: Request):
        body = await request.json()
        if (other := await self._other(request, body)) is not None:
            return other
        rows = np.array([[row[name] for name in COLUMNS] for row in body["instances"]], dtype=float)
        return {"predictions": self.predict(rows).tolist()}

    async def described(self, request: Request, name: str, version: str = ""):
        if (other := await self._other(request, None)) is not None:
            return other
        if name != self.name or version not in ("", self.version):
            return JSONResponse({"error": f"there is no model {name} {version}"}, 404)
        return self.metadata

    async def inferred(self, request: Request, name: str, version: str = ""):
        raw = await request.body()
        length = int(request.headers.get("inference-header-content-length", len(raw)))
        body, behind = json.loads(raw[:length]), raw[length:]
        if (other := await self._other(request, body)) is not None:
            return other
        if name != self.name or version not in ("", self.version):
            return JSONResponse({"error": f"there is no model {name} {version}"}, 404)
        try:
            rows = np.column_stack([_array(tensor, behind) for tensor in body["inputs"]]).astype(float)
            values = self.predict(rows)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 500)
        return self._outputs(values, binary=bool(behind))

    def _outputs(self, values, *, binary):
        tensor = {"name": "probabilities", "datatype": "FP64", "shape": list(values.shape)}
        head = {"model_name": self.name, "model_version": self.version}
        if not binary:
            return {**head, "outputs": [{**tensor, "data": values.ravel().tolist()}]}
        data = values.astype("<f8").tobytes()
        parameters = {"binary_data_size": len(data)}
        content = json.dumps({**head, "outputs": [{**tensor, "parameters": parameters}]}).encode()
        length = {"Inference-Header-Content-Length": str(len(content))}
        return Response(content + data, headers=length, media_type="application/octet-stream")

    async def _other(self, request, body):
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        if self.instead is None:
            return None
        other = self.instead(body)
        return await other if asyncio.iscoroutine(other) else other

    def stop(self):
        self.server.should_exit = self.server.force_exit = True
        self.thread.join()
        self.socket.close()


def _array(tensor, behind):
    kind = NUMPY[tensor["datatype"]]
    values = np.frombuffer(behind, kind) if "data" not in tensor else np.array(tensor["data"], dtype=kind)
    return values.reshape(tensor["shape"])


@contextmanager
def serving(predict=None):
    server = ModelServer(predict or trained().predict_proba)
    try:
        yield server
    finally:
        server.stop()
