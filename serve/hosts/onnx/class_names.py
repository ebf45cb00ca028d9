"""How a graph names the classes that its classifier tells apart."""

from pathlib import Path

from demur.library.class_text import class_text
from demur.serve.hosts.onnx.files import read_graph

ATTRIBUTES = (
    "classlabels_strings",
    "classlabels_string",
    "classlabels_int64s",
    "classlabels_ints",
)
"""Where operators of ONNX for classical models keep the names of classes, which are texts or whole numbers."""


def class_names(file: Path) -> list[str] | list[int]:
    """Return the names of the classes in the order of the graph's numbers.

    Empty where the graph has none, or where its nodes have different ones. Raises `BadModel` for a file that is no
    graph."""
    found: list[list[str] | list[int]] = []
    for node in read_graph(file).graph.node:
        for attribute in node.attribute:
            if attribute.name in ATTRIBUTES:
                texts = [one.decode("utf-8", "replace") for one in attribute.strings]
                names = texts or [int(one) for one in attribute.ints]
                if names and names not in found:
                    found.append(names)
    return found[0] if len(found) == 1 and len(set(map(class_text, found[0]))) == len(found[0]) else []
