"""How often people look at what was not held: `spot_check` in the configuration."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from demur.serve.config.settings import Section

LEAST = 1e-6
"""A record that is drawn less often than this stands for more than a million others."""

Chance = Annotated[float, Field(ge=LEAST, le=1)]
FlatRate = TypeAdapter(Annotated[float, Field(ge=0, le=1)])

FLOOR_SHARE = 0.5
"""The floor, as a part of the lowest rate, where none is written (METHODS 10.14)."""


class SpotCheckConfig(Section):
    """Which share of the predictions that are not held for review a person looks at all the same."""

    rate: Chance
    """On average."""

    floor: Chance | None = None
    """Under `uncertainty` the least probability; by default half of the lowest rate. Weights grow with its
    inverse."""

    groups: dict[str, Chance] = Field(default={})
    """Groups with a rate of their own."""

    allocate: Literal["uniform", "uncertainty"] = "uniform"
    """Whether all are drawn alike, or the less sure the more often."""

    @model_validator(mode="after")
    def no_rate_is_below_the_floor(self) -> "SpotCheckConfig":
        for place, rate in (("rate", self.rate), *((f"groups.{group}", rate) for group, rate in self.groups.items())):
            if self.floor is not None and rate < self.floor:
                raise ValueError(f"{place}: {rate:g} is below the floor of {self.floor:g}")
        return self

    @property
    def least(self) -> float:
        """No prediction is drawn with a lower probability."""
        lowest = min(self.rate, *self.groups.values(), 1.0)
        if self.allocate == "uniform":
            return lowest
        return max(lowest * FLOOR_SHARE, LEAST) if self.floor is None else self.floor

    def stratum(self, group: str | None) -> str | None:
        """The group where it has a rate of its own; else None, for all the others together."""
        return group if group in self.groups else None

    def rate_in(self, stratum: str | None) -> float:
        return self.rate if stratum is None else self.groups[stratum]


def read_spot_check(value: Any) -> float | SpotCheckConfig:
    """A number is one rate for all; 0 is none at all."""
    if isinstance(value, dict | SpotCheckConfig):
        return SpotCheckConfig.model_validate(value)
    rate = FlatRate.validate_python(value)
    return rate if rate == 0 else SpotCheckConfig(rate=rate).rate
