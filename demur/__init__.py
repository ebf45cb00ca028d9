"""Selective prediction as a service: calibrated confidence, abstention, human review, and an audit of the promise.

The names below are imported when they are first used, so that `import demur` costs nothing.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demur.client.async_client import AsyncClient
    from demur.client.errors import DemurError
    from demur.client.items import Item
    from demur.client.sync_client import Client
    from demur.library import calibrators, decisions, metrics, plots, scores
    from demur.library.selective_classifier import SelectiveClassifier
    from demur.serve.local.child_service import start_service

HOMES = {
    "AsyncClient": "demur.client.async_client",
    "Client": "demur.client.sync_client",
    "DemurError": "demur.client.errors",
    "Item": "demur.client.items",
    "SelectiveClassifier": "demur.library.selective_classifier",
    "calibrators": "demur.library.calibrators",
    "decisions": "demur.library.decisions",
    "metrics": "demur.library.metrics",
    "plots": "demur.library.plots",
    "scores": "demur.library.scores",
    "start_service": "demur.serve.local.child_service",
}
"""The module in which each public name lives; or which it is, where it is called so."""

__all__ = [
    "AsyncClient",
    "Client",
    "DemurError",
    "Item",
    "SelectiveClassifier",
    "calibrators",
    "decisions",
    "metrics",
    "plots",
    "scores",
    "start_service",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("demur")
    if name not in HOMES:
        raise AttributeError(f"module 'demur' has no attribute {name!r}")
    home = import_module(HOMES[name])
    return home if HOMES[name].endswith(f".{name}") else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *HOMES})
