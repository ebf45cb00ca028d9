"""Text encoders of random weights, with labels drawn from what it says itself, so that it is right about how
sure it is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

ROOT = Path(__file__).parents[2]
WORDS = 2000
LABELS = ("one", "two", "three", "four")


@dataclass(frozen=True)
class Shape:
    """How large an encoder is."""

    dimensions: int
    layers: int
    heads: int


SENTENCES = Shape(dimensions=384, layers=12, heads=12)
"""That of small sentence encoders."""


def encoder(folder: Path, shape: Shape = SENTENCES) -> None:
    """Save an encoder and its tokenizer into a folder."""
    torch.manual_seed(0)
    words = {word: at for at, word in enumerate(["[PAD]", "[CLS]", "[SEP]", "[UNK]", *(f"w{i}" for i in range(WORDS))])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]",
        model_max_length=128,
    )  # fmt: skip
    config = BertConfig(
        vocab_size=len(words), hidden_size=shape.dimensions, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=4 * shape.dimensions,
        num_labels=len(LABELS), max_position_embeddings=128, initializer_range=0.08,
        id2label=dict(enumerate(LABELS)), label2id={label: at for at, label in enumerate(LABELS)},
    )  # fmt: skip
    model = BertForSequenceClassification(config).eval()
    model.classifier.weight.data *= 6  # else every label is as probable as any other
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def texts(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in rng.integers(WORDS, size=rng.integers(8, 30))) for _ in range(n)]


def labelled(folder: Path, file: Path, n: int = 400) -> None:
    """Write texts with labels drawn from the encoder's own probabilities."""
    from demur.serve.hosts.classifier.model import Classifier

    rng, inputs = np.random.default_rng(1), texts(n, 1)
    probabilities = Classifier.of_checkpoint(str(folder)).run(inputs, frozenset()).probabilities
    rows: list[dict[str, Any]] = [
        {"input": text, "label": LABELS[rng.choice(len(LABELS), p=row / row.sum())]}
        for text, row in zip(inputs, probabilities, strict=True)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
