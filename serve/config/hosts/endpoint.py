"""Language models behind an endpoint of OpenAI's kind: `host: {kind: openai}`."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from demur.serve.config.hosts.language import LanguageHost, MostPictures
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.settings import Section


def _without_secret(url: str) -> str:
    if "@" in url:
        raise ValueError("an address with a password in it would be logged; put the key into `api_key_env`")
    return url.rstrip("/")


EndpointUrl = Annotated[
    str,
    written_as(r"^https?://", "write an address that begins with http:// or https://"),
    AfterValidator(_without_secret),
]
"""Up to `/v1`."""


class EndpointConfig(Section):
    """Another endpoint that serves the same model."""

    base_url: EndpointUrl
    model: str | None = None
    """As this endpoint calls it; by default as the first one does."""

    api_key_env: str | None = None
    """By default that of the first one."""


class OpenAIHost(LanguageHost):
    """A language model behind any endpoint that speaks OpenAI's chat completions."""

    is_endpoint: ClassVar[bool] = True
    uses_gpu: ClassVar[bool] = False
    package: ClassVar[tuple[str, str]] = ("openai", "pip install 'demur[openai]'")

    kind: Literal["openai"]
    base_url: EndpointUrl
    model: str
    """As the endpoint calls it."""

    endpoints: tuple[EndpointConfig, ...] = ()
    """Further endpoints that serve the same model, asked in turn where the one before is away (`on_failure: next`)."""

    api_key_env: str = "OPENAI_API_KEY"
    """The environment variable that holds the key; a key in a file would be read by too many."""

    concurrency: int = Field(default=32, ge=1)
    """Requests at the same time, for each replica."""

    retries: int = Field(default=3, ge=0, le=20)
    """How often a request that failed in passing is sent again, after a growing time with jitter."""

    gives_logprobs: bool = True
    """False for an endpoint that gives no log-probabilities: scores that need them are then refused at once."""

    extra_body: dict[str, Any] = Field(default={})
    """What else the endpoint wants in each request."""

    pictures: MostPictures = 0
    """How many pictures a conversation may have; 0 for a model that reads texts alone."""

    @property
    def most_pictures(self) -> int:
        return self.pictures

    @property
    def model_name(self) -> str:
        return f"{self.model} at {self.base_url}"

    @property
    def all_endpoints(self) -> tuple[EndpointConfig, ...]:
        """The first one, and those that follow it."""
        return (EndpointConfig(base_url=self.base_url), *self.endpoints)

    @model_validator(mode="before")
    @classmethod
    def adapter_is_named_there(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "adapter" in values:
            raise ValueError(
                "adapter: an endpoint loads its own adapters; leave this out, and write the adapter's name there as"
                " `model`"
            )
        return values

    @model_validator(mode="after")
    def variables_are_told_once(self) -> "OpenAIHost":
        if self.chat_template_kwargs and "chat_template_kwargs" in self.extra_body:
            raise ValueError("extra_body: chat_template_kwargs is set beside it as well; leave out one of the two")
        return self

    @model_validator(mode="after")
    def endpoints_differ(self) -> "OpenAIHost":
        addresses = [endpoint.base_url for endpoint in self.all_endpoints]
        if twice := next((url for url in addresses if addresses.count(url) > 1), None):
            raise ValueError(f"endpoints: {twice} is named twice; each one is asked once")
        return self
