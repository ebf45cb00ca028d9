"""Every key of the configuration is in the documentation."""

import types
import typing

from pydantic import BaseModel

from demur.serve.config.file import Config
from tests.conftest import ROOT


def sections_in(annotation):
    """The sections that a key may hold, however its type wraps them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is not None:
        for inner in typing.get_args(annotation):
            yield from sections_in(inner)


def keys_in(section, seen):
    if section in seen:
        return
    seen.add(section)
    for name, field in section.model_fields.items():
        yield f"{section.__name__}.{field.alias or name}"
        for inner in sections_in(field.annotation):
            yield from keys_in(inner, seen)


def test_each_key_is_named_on_some_page():
    pages = " ".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    keys = list(keys_in(Config, set()))
    assert len(keys) > 150
    last = {key: key.split(".")[1] for key in keys}
    unnamed = [key for key in keys if not any(f"{last[key]}{end}" in pages for end in ("`", ":", "."))]
    assert unnamed == []
