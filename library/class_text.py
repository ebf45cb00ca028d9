"""The text that stands for a class of an estimator."""

from typing import Any


def class_text(label: Any) -> str:
    """Return a class as text: a whole number without a point, whatever its type."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)
