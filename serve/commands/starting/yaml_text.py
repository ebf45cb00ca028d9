"""Values as they are written into a configuration."""

from typing import Any

import yaml


def as_yaml(value: Any) -> str:
    """Return a value on one line, quoted where YAML wants it."""
    return yaml.safe_dump(
        [value], default_flow_style=True, allow_unicode=True, width=float("inf"), sort_keys=False
    ).strip()[1:-1]
