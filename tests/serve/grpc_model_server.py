"""A real server of the Open Inference Protocol over gRPC, with Triton's own messages, and a real model behind it."""

import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import numpy as np
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from demur.serve.contract.inference_protocol.tensors import NUMPY


class GrpcModelServer(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Serves `predict`. A test may put a function of request and context into `instead`: what it returns is the reply,
    unless that is None."""

    def __init__(self, predict):
        self.predict, self.instead, self.asked, self.metadata_asked, self.headers = predict, None, [], 0, []
        self.raw = True
        self.inputs = [pb.ModelMetadataResponse.TensorMetadata(name="input", datatype="FP32", shape=[-1, 3])]
        self.outputs = [pb.ModelMetadataResponse.TensorMetadata(name="probabilities", datatype="FP64", shape=[-1, 2])]
        self.server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.url = f"grpc://127.0.0.1:{self.port}"
        self.server.start()

    def ModelMetadata(self, request, context):  # noqa: N802 - the protocol's names
        self.metadata_asked += 1
        if request.name != "cancer":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no model {request.name}")
        return pb.ModelMetadataResponse(name="cancer", versions=["3"], inputs=self.inputs, outputs=self.outputs)

    def ModelInfer(self, request, context):  # noqa: N802
        self.asked.append(request)
        self.headers.append(dict(context.invocation_metadata()))
        if self.instead is not None and (other := self.instead(request, context)) is not None:
            return other
        if request.model_name != "cancer":
            context.abort(grpc.StatusCode.NOT_FOUND, f"there is no model {request.model_name}")
        tensors = zip(request.inputs, request.raw_input_contents, strict=True)
        rows = np.column_stack([_array(tensor, raw) for tensor, raw in tensors]).astype(float)
        try:
            values = self.predict(rows)
        except ValueError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))
        return self.reply(values)

    def reply(self, values, *, version="3", name="probabilities", datatype="FP64", shape=None):
        """What a server says, in bytes or, where `raw` is false, in elements."""
        tensor = pb.ModelInferResponse.InferOutputTensor(
            name=name, datatype=datatype, shape=shape or list(np.shape(values))
        )
        told = pb.ModelInferResponse(model_name="cancer", model_version=version)
        array = np.asarray(values, dtype=NUMPY[datatype])
        if self.raw:
            told.raw_output_contents.append(array.tobytes())
        else:
            tensor.contents.fp64_contents.extend(array.ravel().tolist())
        told.outputs.append(tensor)
        return told

    def stop(self):
        self.server.stop(0).wait()


def _array(tensor, raw):
    return np.frombuffer(raw, NUMPY[tensor.datatype]).reshape(list(tensor.shape))


def texts_of(raw):
    """Elements of BYTES, each behind its length."""
    found = []
    while raw:
        (length,) = struct.unpack("<I", raw[:4])
        found.append(raw[4 : 4 + length].decode())
        raw = raw[4 + length :]
    return found


@contextmanager
def serving_grpc(predict):
    server = GrpcModelServer(predict)
    try:
        yield server
    finally:
        server.stop()
