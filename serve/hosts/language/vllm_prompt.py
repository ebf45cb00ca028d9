"""What vLLM's engine reads before it replies: tokens, and the pictures that stand between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from demur.serve.contract.engine import EngineFailed
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.reading.conversations import AS_IT_IS
from demur.serve.contract.reading.pictures import Picture
from demur.serve.hosts.language.prompt_tokens import PromptTokens


@dataclass(frozen=True, kw_only=True)
class VllmPrompt:
    """A prompt as tokens in which a picture has one place; vLLM makes as many tokens of it as the model needs."""

    tokens: PromptTokens
    images: tuple[Image.Image, ...] = ()

    def read(self, written: Sequence[int] = ()) -> dict[str, Any]:
        """Return the prompt as vLLM takes it, perhaps with what was, or could be, written after it."""
        told: dict[str, Any] = {"type": "token", "prompt_token_ids": [*self.tokens.ids, *written]}
        if self.images:
            told = {"prompt_token_ids": told["prompt_token_ids"], "multi_modal_data": {"image": list(self.images)}}
        return told


def decoded_images(urls: Sequence[str]) -> tuple[Image.Image, ...]:
    """Return pictures in their full size. Raises `EngineFailed`, though the gateway has decoded each of them before."""
    try:
        return tuple(Image.fromarray(np.moveaxis(Picture(url).decoded(AS_IT_IS), 0, -1).copy()) for url in urls)
    except InvalidRequest as error:
        raise EngineFailed(str(error)) from None
