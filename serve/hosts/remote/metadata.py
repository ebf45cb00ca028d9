"""What a server of the Open Inference Protocol says of its model, beside what is configured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demur.library.nearest import one_of
from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.hosts.remote.input_tensors import names_of, row_shape_of

MOST = 1000
"""Versions or tensors that are looked at."""

LONGEST = 200


@dataclass(frozen=True)
class TensorDescription:
    name: str
    datatype: str
    shape: tuple[int, ...]
    """-1 for a size that is open."""


@dataclass(frozen=True, kw_only=True)
class RemoteMetadata:
    """What a server says. Empty where it says nothing."""

    versions: tuple[str, ...] = ()
    inputs: tuple[TensorDescription, ...] = ()
    outputs: tuple[TensorDescription, ...] = ()


def metadata_of(said: Any) -> RemoteMetadata | None:
    """Read the metadata that a server sent as JSON; None where they are none."""
    if not isinstance(said, Mapping):
        return None
    versions = said.get("versions")
    listed = versions[:MOST] if isinstance(versions, list) else []
    return RemoteMetadata(
        versions=tuple(str(one)[:LONGEST] for one in listed),
        inputs=_tensors(said.get("inputs")),
        outputs=_tensors(said.get("outputs")),
    )


def _tensors(said: Any) -> tuple[TensorDescription, ...]:
    found = []
    for one in said[:MOST] if isinstance(said, list) else ():
        if isinstance(one, Mapping):
            shape = one.get("shape")
            sizes = shape[:MOST] if isinstance(shape, list) else []
            found.append(
                TensorDescription(
                    str(one.get("name"))[:LONGEST],
                    str(one.get("datatype"))[:LONGEST],
                    tuple(int(size) for size in sizes if isinstance(size, int | str) and _is_number(size)),
                )
            )
    return tuple(found)


def _is_number(size: int | str) -> bool:
    text = str(size).removeprefix("-")
    return text.isascii() and text.isdigit() and len(text) < LONGEST


def differences(said: RemoteMetadata, host: RemoteSettings, labels: int) -> Iterator[tuple[str, str]]:
    """Yield each key of `host` that is not as the server says, and a sentence. `labels` counts those of the task."""
    if host.version and said.versions and host.version not in said.versions:
        yield "version", f"the server has no such version: {one_of(host.version, said.versions)}"
    if said.inputs:
        yield from _of_inputs({one.name: one for one in said.inputs}, host)
    if said.outputs:
        yield from _of_outputs(said.outputs, host, labels)


def _of_inputs(said: Mapping[str, TensorDescription], host: RemoteSettings) -> Iterator[tuple[str, str]]:
    sent = names_of(host)
    key = "tensor.names" if host.columns == "apart" else "tensor.name"
    for name, datatype in sent.items():
        if name not in said:
            yield key, f"the server takes no such tensor: {one_of(name, said)}"
            continue
        if said[name].datatype != datatype:
            wrong = "tensor.datatype" if datatype != "BYTES" else "input"
            yield wrong, f"the server takes {said[name].datatype} as {name!r}, and {datatype} is sent"
        row = row_shape_of(host)
        shape = (-1, *row) if host.takes_batches else row or (1,)
        if said[name].shape and not _fits(shape, said[name].shape):
            yield (
                "tensor.row_shape",
                f"the server takes {list(said[name].shape)} as {name!r}, and {list(shape)} is sent"
                f"{'' if host.takes_batches else ' (takes_batches: false)'}",
            )
    if missing := [name for name in said if name not in sent]:
        yield key, f"the server takes the tensor {missing[0]!r} as well, and it is not sent"


def _of_outputs(said: Sequence[TensorDescription], host: RemoteSettings, labels: int) -> Iterator[tuple[str, str]]:
    names = [one.name for one in said]
    for key, place in host.parts.items():
        if place is None and len(names) > 1:
            yield key, f"the server gives several tensors; name one of: {', '.join(names[:20])}"
        elif place is not None and place not in names:
            yield key, f"the server gives no such tensor: {one_of(place, names)}"
        else:
            found = said[0] if place is None else said[names.index(place)]
            if (found.datatype == "BYTES") != (key == "output_labels"):
                yield key, f"the server gives {found.datatype} as {found.name!r}, which is no part of that kind"
                continue
            wanted = {"output": labels, "embedding": host.embedding_size}.get(key)
            alone = labels == 2 and key == "output" and found.shape[1:] in ((), (1,))
            if wanted and host.output_labels is None and len(found.shape) == 2 and not alone:
                width = found.shape[1]
                if width not in (-1, wanted):
                    yield (
                        key,
                        f"the server gives {width} numbers for each input as {found.name!r}, and {wanted} are wanted",
                    )


def _fits(sent: tuple[int, ...], said: tuple[int, ...]) -> bool:
    return len(sent) == len(said) and all(
        -1 in (ours, theirs) or ours == theirs for ours, theirs in zip(sent, said, strict=True)
    )
