"""What every section of the configuration file is."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from demur.library.settings import check_numbers


class Section(BaseModel):
    """A part of the configuration: frozen, and without keys that are not known."""

    # What is written can be read again: replicas are told the configuration as it is dumped here.
    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def yes_is_no_number(cls, values: Any) -> Any:
        """YAML reads `yes` and `on` as true, which would pass for 1."""
        if isinstance(values, Mapping):
            wanted = {field.alias or name: field.annotation for name, field in cls.model_fields.items()}
            check_numbers({name: value for name, value in values.items() if name in wanted}, wanted)
        return values
