"""Classifiers of the transformers library: any image or text classifier, from a folder or by its name on a hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)
from transformers.utils import logging as transformers_logging

from demur.serve.config.checkpoint_facts import BadCheckpoint, read_facts
from demur.serve.config.hosts import ClassifierHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.hosts.checkpoint import NoEmbedding, check_labels, first_line, local_folder
from demur.serve.hosts.classifier.image_features import ImageFeatures, check_scale
from demur.serve.hosts.classifier.mc_dropout import DropoutPasses
from demur.uncertainty.checks import Array
from demur.uncertainty.label_tree import LabelTree
from demur.uncertainty.output import Link, Need, Output

transformers_logging.disable_progress_bar()  # a bar for each checkpoint in every replica's log helps nobody


class Classifier:
    """A model on a device. Not safe to run from two threads at a time."""

    def __init__(
        self,
        checkpoint: str,
        *,
        device: str = "auto",
        link: Link = "softmax",
        tree: LabelTree | None = None,
        mc_passes: int = 20,
    ) -> None:
        self._link = link
        self._tree = tree
        self._mc_passes = mc_passes
        self.folder = local_folder(checkpoint)
        self.device = torch.device(best_device() if device == "auto" else device)
        facts = read_facts(self.folder)
        self._is_image = facts.kind == "image"
        self._model = _load(self.folder, is_image=self._is_image).to(self.device).eval()
        if self._is_image:
            self._processor = AutoImageProcessor.from_pretrained(self.folder)
            check_scale(self._processor, self.folder)
            self._images = ImageFeatures(self._processor, self.spec)
        else:
            self._tokenizer = AutoTokenizer.from_pretrained(self.folder)
            if self._tokenizer.pad_token is None:  # decoders often come without one, and a batch needs it
                self._tokenizer.pad_token = self._tokenizer.eos_token
                self._model.config.pad_token_id = self._tokenizer.pad_token_id
            self._longest = min(
                self._tokenizer.model_max_length, getattr(self._model.config, "max_position_embeddings", 512)
            )
        self._head = _last_linear(self._model, len(facts.labels))
        self._passes = DropoutPasses(self._model, lambda features: self._model(**features).logits)
        self._head_is_right = False  # until a first batch has shown it

    @classmethod
    def of(cls, host: ClassifierHost, task: TaskConfig) -> "Classifier":
        """Load the model as it is configured. Raises `BadCheckpoint` where the labels are not those of the
        checkpoint."""
        check_labels(host.checkpoint, task, local_folder(host.checkpoint))
        return cls(host.checkpoint, device=host.device, link=task.link, tree=task.tree, mc_passes=host.mc_passes)

    @property
    def spec(self) -> InputSpec:
        if not self._is_image:
            return InputSpec(kind="text")
        cropped = getattr(self._processor, "do_center_crop", False)
        size = self._processor.crop_size if cropped else self._processor.size
        return InputSpec(
            kind="image",
            channels=getattr(self._model.config, "num_channels", 3),
            height=size.get("height") or size["shortest_edge"],
            width=size.get("width") or size["shortest_edge"],
        )

    def example(self) -> ModelInput:
        """An input without meaning that the model takes: to warm it up, and to show what a request looks like."""
        spec = self.spec
        if spec.kind == "text":
            return "a text"
        return np.zeros((spec.channels, spec.height, spec.width), dtype=np.float32)

    def remarks(self) -> list[str]:
        """Return nothing: there is nothing to remark."""
        return []

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked for about each input, and nothing that was not."""
        features = self._features(inputs)
        with torch.inference_mode():
            if "embedding" in needs:
                logits, embedding = self._forward_with_embedding(features)
            else:
                logits, embedding = self._forward(features), None
            mc_logits = _numbers(self._passes.run(features, self._mc_passes)) if "mc_probabilities" in needs else None
        return Output.from_logits(logits, link=self._link, embedding=embedding, mc_logits=mc_logits, tree=self._tree)

    def _features(self, inputs: Sequence[ModelInput]) -> dict[str, torch.Tensor]:
        encoded = (
            self._images.of(inputs)  # type: ignore[arg-type]
            if self._is_image
            else self._tokenizer(
                list(inputs), padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
            )
        )
        return {name: tensor.to(self.device) for name, tensor in encoded.items()}

    def _forward(self, features: dict[str, torch.Tensor]) -> Array:
        return _numbers(self._model(**features).logits)

    def _forward_with_embedding(self, features: dict[str, torch.Tensor]) -> tuple[Array, Array]:
        seen: list[torch.Tensor] = []
        hook = self._head.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
        try:
            logits = self._model(**features).logits
        finally:
            hook.remove()
        embedding = seen[-1] if seen else logits.new_zeros(0)
        if embedding.ndim == 3:  # a decoder's head sees every token; its verdict is that of the last real one
            mask = features["attention_mask"]
            last = (mask * torch.arange(mask.shape[1], device=mask.device)).argmax(dim=1)
            embedding = embedding[torch.arange(len(last), device=mask.device), last]
        if not self._head_is_right:
            again = self._head(embedding) if embedding.ndim == 2 else embedding
            if again.shape != logits.shape or not torch.allclose(again, logits, atol=1e-3, rtol=1e-3):
                raise NoEmbedding(
                    f"the input of the classification head of {type(self._model).__name__} was not found;"
                    " leave out the scores that need the embedding"
                )
            self._head_is_right = True
        return _numbers(logits), _numbers(embedding)


def _load(folder: Path, *, is_image: bool) -> Any:
    auto = AutoModelForImageClassification if is_image else AutoModelForSequenceClassification
    try:
        model, found = auto.from_pretrained(folder, output_loading_info=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise BadCheckpoint(f"{folder} cannot be loaded: {first_line(error)}") from error
    if found["missing_keys"]:  # transformers would go on with random numbers in their place
        raise BadCheckpoint(f"{folder} lacks weights of its model: {', '.join(sorted(found['missing_keys'])[:5])}")
    return model


def _last_linear(model: nn.Module, classes: int) -> nn.Module:
    heads = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == classes]
    return heads[-1] if heads else nn.Identity()  # Identity is never called: `NoEmbedding` says so


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _numbers(tensor: torch.Tensor) -> Array:
    return np.asarray(tensor.double().cpu())
