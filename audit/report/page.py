"""The report as one page to read and to print: everything on it comes from the document."""

from collections.abc import Mapping
from typing import Any

from markupsafe import escape


def page(document: Mapping[str, Any]) -> str:
    """Return self-contained HTML."""
    return f"<!doctype html><title>Audit of {escape(document['model'])}</title>"
