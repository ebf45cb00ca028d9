"""A language model with its task: inputs in, what was read from its replies out, as any other model's output."""

from collections.abc import Callable, Sequence

from serve.config import ModelConfig
from serve.inputs import InputSpec, ModelInput
from serve.language.engine import Engine
from uncertainty.checks import Mask
from uncertainty.output import Need, Output

More = Callable[[Output], Mask]
"""Told what is known so far of a batch, says which rows [n] want samples, or more of them."""


class LanguageModel:
    """Takes many batches at a time; nothing of one request is seen by another."""

    def __init__(self, model: ModelConfig, engine: Engine) -> None:
        self._model = model
        self._engine = engine

    @property
    def spec(self) -> InputSpec:
        """What the task takes."""
        raise NotImplementedError

    def example(self) -> ModelInput:
        """An input without meaning that the model takes: to warm it up, and to show what a request looks like."""
        raise NotImplementedError

    async def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need], *, more: More | None = None) -> Output:
        """Return what was asked for about each input, and nothing that was not; rows run at the same time.

        `more` is asked after the first replies, and again whenever `samples.min` further ones are there, until no row
        wants any or `samples.max` are drawn; without it all are drawn. A row whose reply cannot be read, or that the
        engine failed on, is `unreadable`, and says why.
        """
        raise NotImplementedError
