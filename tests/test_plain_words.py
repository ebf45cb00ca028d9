"""Names and docstrings that a newcomer can read: one meaning for a name, and sentences that can be read alone."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from tests.test_floors import BELOW, ROOT

CLIENT = ROOT / "client"

TWICE = {"Usage"}
"""OpenAI's name for what a reply cost stands beside ours."""

PARTICIPLES = {"Combined", "Gated", "Interrupted", "Overloaded", "Scaled", "Unguarded"}
"""`Combined` and `Gated` are stored in artifacts; the others are settings and errors, which say what is so."""

IRREGULAR = re.compile(
    r"Begun|Brought|Chosen|Come|Cut|Done|Drawn|Fed|Found|Given|Gone|Heard|Held|Kept|Known|Left|Lost|Made|Met|Put|Read"
    r"|Said|Seen|Sent|Set|Shown|Spent|Split|Taken|Told|Understood|Written"
)

MOST_LINES = 100
"""Of a function. What is longer has parts that want names of their own."""


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Modules, classes and functions of all rooms."""
    return [
        (path, node)
        for room in BELOW
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def is_participle(name: str) -> bool:
    bare = name.lstrip("_")
    return re.fullmatch(r"[A-Z][a-z]+", bare) is not None and (
        bare.endswith("ed") or IRREGULAR.fullmatch(bare) is not None
    )


def test_a_class_name_means_one_thing_and_is_a_noun() -> None:
    classes = [(path, node.name) for path, node in nodes() if isinstance(node, ast.ClassDef)]
    ours = Counter(name for path, name in classes if CLIENT not in path.parents)
    clients = Counter(name for path, name in classes if CLIENT in path.parents)  # they mirror what the service sends
    assert {name for name, count in ours.items() if count > 1} <= TWICE
    assert max(clients.values()) == 1
    names = ours | clients
    assert {name for name in names if is_participle(name)} <= PARTICIPLES


def test_a_docstring_can_be_read_alone() -> None:
    for path, node in nodes():
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node) or ""
            assert not said.startswith(("The same", "Of ", "As ")), f"{path.relative_to(ROOT)}: {said[:60]}"


def test_no_function_is_longer_than_a_page() -> None:
    for path, node in nodes():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= MOST_LINES, f"{path.relative_to(ROOT)}: {node.name} has {lines} lines"
