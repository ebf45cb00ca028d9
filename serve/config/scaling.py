"""How many copies there are of what serves: `gateway`, `console`, and `replicas` or `autoscaling` of a host."""

from typing import Annotated

from pydantic import Field, model_validator

from demur.serve.config.settings import Section

REQUESTS_AT_A_TIME = 64.0
"""In one gateway, where autoscaling is not told another target."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class AutoscalingConfig(Section):
    """Ray Serve starts and stops replicas so that each has about as much to do as is wanted."""

    min: int = Field(default=1, ge=1)
    """A model with no replica would hold everything until one has started, so there is always one."""

    max: int = Field(ge=1)
    target: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """What one replica has to do at a time: of a host batches, on their way to it or in it, by default half of
    `batch.in_flight`; of a gateway requests, by default 64."""

    up_after_seconds: Seconds = 10.0
    """For how long there must be too much to do before a replica is started."""

    down_after_seconds: Seconds = 300.0
    """For how long there must be too little before one is stopped."""

    @model_validator(mode="after")
    def is_a_range(self) -> "AutoscalingConfig":
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, above max, {self.max}")
        return self


class Scaled(Section):
    """What there may be several of."""

    replicas: int = Field(default=1, ge=1)
    autoscaling: AutoscalingConfig | None = None
    """Between how many replicas, in the place of `replicas`."""

    @model_validator(mode="after")
    def one_number(self) -> "Scaled":
        if self.autoscaling and "replicas" in self.model_fields_set and self.replicas != 1:
            raise ValueError("`replicas` and `autoscaling` both say how many there are; leave one of them out")
        return self

    @property
    def fewest_replicas(self) -> int:
        return self.autoscaling.min if self.autoscaling else self.replicas

    @property
    def most_replicas(self) -> int:
        return self.autoscaling.max if self.autoscaling else self.replicas

    @property
    def replicas_in_words(self) -> str:
        if self.fewest_replicas < self.most_replicas:
            return f"{self.fewest_replicas} to {self.most_replicas} replicas"
        return "1 replica" if self.most_replicas == 1 else f"{self.most_replicas} replicas"


class GatewayConfig(Scaled):
    """The processes that take requests. Each gathers for itself, and each can do everything."""

    cpus: float = Field(default=0.5, ge=0)
    """That Ray sets aside for each of them; a busy one uses a whole core."""

    max_ongoing: int = Field(default=10_000, ge=100)
    """Requests in one gateway at a time, those that wait for an outcome among them. The bounds of models
    (`batch.max_queued`) are reached before it."""

    local_sockets: bool = True
    """Whether `demur up` lets gateways call hosts over Unix sockets, past the handles of Ray Serve."""

    @property
    def target(self) -> float:
        """Requests that one replica has to do at a time, where their number follows the load."""
        return (self.autoscaling and self.autoscaling.target) or REQUESTS_AT_A_TIME


class ConsoleConfig(Section):
    """The processes behind the pages for people. What they do by themselves, several share without doing it twice."""

    replicas: int = Field(default=1, ge=1)
    cpus: float = Field(default=0.1, ge=0)
