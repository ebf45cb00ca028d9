"""Ray Serve without what it imports for others."""

import importlib
import sys


def import_serve() -> None:
    """Import Ray Serve as if pandas were not installed.

    Serve loads pandas, and with it pyarrow, only to be able to send its tables as JSON, which demur never does. They
    take 60 MB in each process. Whoever imports pandas later finds it.
    """
    hidden = "pandas" not in sys.modules
    if hidden:
        sys.modules["pandas"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        importlib.import_module("ray.serve")
    finally:
        if hidden:
            del sys.modules["pandas"]
