"""What a text model is given: tokens of a text, or of two texts together."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoTokenizer

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.contract.inputs import TextPair
from demur.serve.hosts.classifier.loading import Network

Texts = Sequence[str] | Sequence[TextPair]

LEFT_FOR_THE_TEXT = 16
"""Tokens that a sentence about a label has to leave for the text, at least."""


class TextFeatures:
    """A tokenizer. What is too long is cut: a text at its end, of a pair the longer one first."""

    def __init__(self, network: Network) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(network.folder)
        config = network.module.config
        if self._tokenizer.pad_token is None:  # decoders often come without one, and a batch needs it
            self._tokenizer.pad_token = self._tokenizer.eos_token
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = self._tokenizer.pad_token_id
        self._longest = min(self._tokenizer.model_max_length, getattr(config, "max_position_embeddings", 512))

    def of(self, inputs: Texts) -> dict[str, torch.Tensor]:
        """Return the tokens of each text or pair, as long as the longest of them."""
        first = [value.text if isinstance(value, TextPair) else value for value in inputs]
        second = [value.text_pair for value in inputs if isinstance(value, TextPair)]
        encoded: dict[str, torch.Tensor] = self._tokenizer(
            first, second or None, padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
        )
        return encoded

    def about(self, texts: Sequence[str], sentences: Sequence[str]) -> dict[str, torch.Tensor]:
        """Return the tokens of pairs of which only the text is cut: what is said of it counts as a whole."""
        encoded: dict[str, torch.Tensor] = self._tokenizer(
            list(texts),
            list(sentences),
            padding=True,
            truncation="only_first",
            max_length=self._longest,
            return_tensors="pt",
        )
        return encoded

    def check_short(self, sentences: Sequence[str]) -> None:
        """Raise `BadCheckpoint` for a sentence that leaves no room for a text beside it."""
        for sentence in sentences:
            tokens = len(self._tokenizer(sentence)["input_ids"])
            if tokens + LEFT_FOR_THE_TEXT > self._longest:
                raise BadCheckpoint(
                    f"host.zero_shot: {sentence[:80]!r} has {tokens} tokens, and the model reads {self._longest} with"
                    " the text; shorten the template or the label"
                )
