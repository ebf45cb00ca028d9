"""The messages of the protocol over gRPC, put together from its field numbers when they are first needed.

They live in a pool of their own: a program that also holds the messages of another implementation, such as a client's,
has two packages `inference`, and the common pool would refuse the second one.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "inference.GRPCInferenceService"

CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Where the elements of a tensor are that is not sent as bytes, by its datatype. FP16 is only sent as bytes."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("bool live = 1",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("bool ready = 1",),
    "ModelReadyRequest": ("string name = 1", "string version = 2"),
    "ModelReadyResponse": ("bool ready = 1",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": ("string name = 1", "string version = 2", "repeated string extensions = 3"),
    "ModelMetadataRequest": ("string name = 1", "string version = 2"),
    "TensorMetadata": ("string name = 1", "string datatype = 2", "repeated int64 shape = 3"),
    "ModelMetadataResponse": (
        "string name = 1",
        "repeated string versions = 2",
        "string platform = 3",
        "repeated TensorMetadata inputs = 4",
        "repeated TensorMetadata outputs = 5",
    ),
    "InferParameter": (
        "oneof bool bool_param = 1",
        "oneof int64 int64_param = 2",
        "oneof string string_param = 3",
        "oneof double double_param = 4",
        "oneof uint64 uint64_param = 5",
    ),
    "InferTensorContents": (
        "repeated bool bool_contents = 1",
        "repeated int32 int_contents = 2",
        "repeated int64 int64_contents = 3",
        "repeated uint32 uint_contents = 4",
        "repeated uint64 uint64_contents = 5",
        "repeated float fp32_contents = 6",
        "repeated double fp64_contents = 7",
        "repeated bytes bytes_contents = 8",
    ),
    "InferInputTensor": (
        "string name = 1",
        "string datatype = 2",
        "repeated int64 shape = 3",
        "map InferParameter parameters = 4",
        "InferTensorContents contents = 5",
    ),
    "InferRequestedOutputTensor": ("string name = 1", "map InferParameter parameters = 2"),
    "ModelInferRequest": (
        "string model_name = 1",
        "string model_version = 2",
        "string id = 3",
        "map InferParameter parameters = 4",
        "repeated InferInputTensor inputs = 5",
        "repeated InferRequestedOutputTensor outputs = 6",
        "repeated bytes raw_input_contents = 7",
    ),
    "InferOutputTensor": (
        "string name = 1",
        "string datatype = 2",
        "repeated int64 shape = 3",
        "map InferParameter parameters = 4",
        "InferTensorContents contents = 5",
    ),
    "ModelInferResponse": (
        "string model_name = 1",
        "string model_version = 2",
        "string id = 3",
        "map InferParameter parameters = 4",
        "repeated InferOutputTensor outputs = 5",
        "repeated bytes raw_output_contents = 6",
    ),
}
"""As in the specification, but that messages which it puts inside others stand beside them, which is the same in
transit. `map` is one from texts."""

Field = descriptor_pb2.FieldDescriptorProto


def messages() -> dict[str, Any]:
    """The class of each message, by its name."""
    file = descriptor_pb2.FileDescriptorProto(name="demur_inference.proto", package="inference", syntax="proto3")
    for name, lines in FIELDS.items():
        _describe(file.message_type.add(name=name), lines)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{name}")) for name in FIELDS}


def _describe(message: Any, lines: tuple[str, ...]) -> None:
    for line in lines:
        *manner, kind, name, _, number = line.split()
        field = message.field.add(name=name, number=int(number), label=Field.LABEL_OPTIONAL)
        if manner == ["map"]:
            entry = message.nested_type.add(name="ParametersEntry")
            entry.options.map_entry = True
            _describe(entry, ("string key = 1", f"{kind} value = 2"))
            manner, kind = ["repeated"], f"{message.name}.ParametersEntry"
        if manner == ["repeated"]:
            field.label = Field.LABEL_REPEATED
        if manner == ["oneof"]:
            if not message.oneof_decl:
                message.oneof_decl.add(name="parameter_choice")
            field.oneof_index = 0
        if kind[0].islower():
            field.type = Field.Type.Value(f"TYPE_{kind.upper()}")
        else:
            field.type, field.type_name = Field.TYPE_MESSAGE, f".inference.{kind}"
