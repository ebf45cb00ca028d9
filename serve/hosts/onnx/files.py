"""The files that a graph is made of: the graph, and weights that it keeps in files beside it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, Message

from demur.serve.hosts.kind import BadModel

BLOCK = 1 << 20


def files_of(file: Path) -> list[Path]:
    """Return the file of a graph, and those of its weights. Raises `BadModel` where one is missing, where the graph
    cannot be read, and where it names a file outside of its own folder."""
    graph = read_graph(file)
    folder = file.parent.resolve()
    names = {_location(tensor) for tensor in _tensors(graph) if tensor.data_location == onnx.TensorProto.EXTERNAL}
    return [file, *(_beside(folder, name, file) for name in sorted(names))]


def read_graph(file: Path) -> onnx.ModelProto:
    """Return the graph without the weights that lie in other files. Raises `BadModel`."""
    if file.is_dir():
        inside = ", ".join(sorted(path.name for path in file.glob("*.onnx"))[:5])
        found = f"name a file in it, such as {inside}" if inside else "and there is no .onnx file in it"
        raise BadModel(f"host.file: {file} is a folder; {found}")
    if not file.is_file():
        raise BadModel(f"host.file: there is no file {file}")
    try:
        graph = onnx.load_model(file, format="protobuf", load_external_data=False)
    except DecodeError:
        raise BadModel(f"host.file: {file} is damaged, or no graph in ONNX's format; export the model again") from None
    except OSError as error:
        raise BadModel(f"host.file: {file} cannot be read: {error.strerror}") from None
    if not graph.graph.output:
        raise BadModel(f"host.file: {file} is damaged, or no graph in ONNX's format; export the model again")
    return graph


def fingerprint_of(paths: list[Path], *told: str) -> str:
    """Return the SHA-256 over names and contents of files, and over what else decides what the model says."""
    digest = hashlib.sha256("\0".join(told).encode())
    for path in paths[1:]:
        digest.update(f"\0{path.name}".encode())
    for path in paths:
        digest.update(f"\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()


def _tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor in a graph, however deep: among weights, attributes, branches and functions."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        several: Any = [value] if isinstance(value, Message) else value
        for one in several:
            yield from _tensors(one)


def _location(tensor: onnx.TensorProto) -> str:
    return next((str(entry.value) for entry in tensor.external_data if entry.key == "location"), "")


def _beside(folder: Path, name: str, file: Path) -> Path:
    """Return the path of a file of weights, which must lie in the folder of its graph."""
    path = folder / name
    outside = (
        f"host.file: {file} keeps weights in {name!r}, which leads out of the graph's own folder; copy both"
        " into one folder, or export the model again"
    )
    try:
        inside, there = name != "" and path.resolve().is_relative_to(folder), path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        inside = there = False
    if not inside:
        raise BadModel(outside)
    if not there:
        raise BadModel(f"host.file: {file} keeps weights in {name}, and there is no such file in {folder}")
    return path
