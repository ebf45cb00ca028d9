"""Selective prediction as a service: calibrated confidence, abstention, human review, and an audit of the promise."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demur.client.async_client import AsyncClient
    from demur.client.errors import DemurError
    from demur.client.items import Item
    from demur.client.sync_client import Client

__all__ = ["AsyncClient", "Client", "DemurError", "Item"]

_HOMES = {
    "AsyncClient": "demur.client.async_client",
    "Client": "demur.client.sync_client",
    "DemurError": "demur.client.errors",
    "Item": "demur.client.items",
}
"""Where each name is found once somebody asks for it: `import demur` alone loads nothing."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'demur' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
