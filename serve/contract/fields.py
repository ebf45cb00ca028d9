"""The content of a response, made of its model's fields: each field is written once, in the model."""

from functools import cache
from typing import Any

from pydantic import BaseModel


def fields_of(view: type[BaseModel], *sources: object, **others: Any) -> dict[str, Any]:
    """Return what a response says: each field of `view` from `others`, or else from the first source with an attribute
    of its name. Raises `AttributeError` where there is none, and `TypeError` for one of `others` that is no field."""
    names = _names(view)
    if others.keys() - names:
        raise TypeError(f"{view.__name__} has no field {', '.join(sorted(others.keys() - names))}")
    return {name: others[name] if name in others else _of(sources, name) for name in names}


def _of(sources: tuple[object, ...], name: str) -> Any:
    for source in sources[:-1]:
        if hasattr(source, name):
            return getattr(source, name)
    return getattr(sources[-1], name)


@cache
def _names(view: type[BaseModel]) -> dict[str, None]:
    return dict.fromkeys(view.model_fields)
