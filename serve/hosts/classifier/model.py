"""Classifiers of the transformers library: any image or text classifier, from a folder or by its name on a hub."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from transformers import AutoImageProcessor
from transformers.utils import logging as transformers_logging

from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec, ModelInput, example_of
from demur.serve.hosts.checkpoint import NoEmbedding, check_suits, local_folder
from demur.serve.hosts.classifier.image_features import ImageFeatures, check_scale
from demur.serve.hosts.classifier.loading import compiled, load_network, no_compiler
from demur.serve.hosts.classifier.mc_dropout import DropoutPasses
from demur.serve.hosts.classifier.text_features import TextFeatures
from demur.serve.hosts.classifier.zero_shot import LabelSentences
from demur.uncertainty.checks import Array
from demur.uncertainty.output import Need, Output

transformers_logging.disable_progress_bar()  # a bar for each checkpoint in every replica's log helps nobody

Features = dict[str, torch.Tensor]

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
"""How far two ways to the same logits may lie apart, where rounding alone sets them apart."""

ROUGH = 3e-2
"""The same where the model computes with 16 bits."""


class Classifier:
    """A model on a device. Not safe to run from two threads at a time."""

    def __init__(self, host: ClassifierHost, task: TaskConfig | None = None) -> None:
        """Without a `task` its labels are those of the checkpoint, and exclude each other. Raises `BadCheckpoint`."""
        if task is not None:
            check_suits(host, task, local_folder(host.checkpoint, host.revision))
        network = load_network(host)
        self._link, self._tree = (task.link, task.tree) if task else ("softmax", None)
        self._mc_passes = host.mc_passes
        self.folder, self.device = network.folder, network.device
        self._is_image = network.facts.kind == "image"
        self._takes = host.input or "text"
        self._model = network.module
        if self._is_image:
            self._processor = AutoImageProcessor.from_pretrained(self.folder)
            check_scale(self._processor, self.folder)
            self._images = ImageFeatures(self._processor, self.spec)
        else:
            self._texts = TextFeatures(network)
        self._sentences: LabelSentences | None = None
        if task is not None and host.zero_shot is not None:
            self._sentences = LabelSentences(host.zero_shot, task, network.facts, host.checkpoint)
            self._texts.check_short(self._sentences.sentences)
        self._head = _last_linear(self._model, len(network.facts.labels))
        self._passes = DropoutPasses(self._model, lambda features: self._model(**features).logits)
        self._head_is_right = False  # until a first batch has shown it
        self._plain = self._compiled() if host.compile else self._model

    @classmethod
    def of_checkpoint(cls, checkpoint: str, **settings: Any) -> "Classifier":
        """Load a checkpoint whatever its labels are, with `settings` as under `host`."""
        return cls(ClassifierHost(kind="classifier", checkpoint=checkpoint, **settings))

    @property
    def spec(self) -> InputSpec:
        if not self._is_image:
            return InputSpec(kind=self._takes)
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
        return example_of(self.spec)

    def remarks(self) -> list[str]:
        """Return nothing: there is nothing to remark."""
        return []

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked for about each input, and nothing that was not."""
        if self._sentences is not None and "embedding" in needs:
            raise NoEmbedding("with host.zero_shot a text has no embedding; leave out the scores that need one")
        parts = []
        with torch.inference_mode():
            for features in self._features(inputs):
                if "embedding" in needs:
                    logits, embedding = self._forward_with_embedding(features)
                else:
                    logits, embedding = _numbers(self._plain(**features).logits), None
                wanted = "mc_probabilities" in needs
                passes = _numbers(self._passes.run(features, self._mc_passes)) if wanted else None
                parts.append((logits, embedding, passes))
        said, embeddings, repeated = (_together(part) for part in zip(*parts, strict=True))
        assert said is not None
        if self._sentences is not None:
            said = self._sentences.logits(said)
            repeated = None if repeated is None else self._sentences.logits(repeated)
        return Output.from_logits(said, link=self._link, embedding=embeddings, mc_logits=repeated, tree=self._tree)

    def _features(self, inputs: Sequence[ModelInput]) -> Iterator[Features]:
        """What the model is given, in one part, or in several where it is asked about each label by itself."""
        if self._is_image:
            yield self._placed(self._images.of(cast(Any, inputs)))
        elif self._sentences is None:
            yield self._placed(self._texts.of(cast(Any, inputs)))
        else:
            for texts, sentences in self._sentences.pairs(cast(Any, inputs)):
                yield self._placed(self._texts.about(texts, sentences))

    def _placed(self, encoded: Features) -> Features:
        """Tensors on the model's device, and numbers with as many bits as its own."""
        return {
            name: tensor.to(self.device, self._model.dtype if tensor.is_floating_point() else None)
            for name, tensor in encoded.items()
        }

    def _compiled(self) -> Any:
        """The model as torch compiles it, warm for one input and for several. Raises `BadCheckpoint`."""
        plain = compiled(self._model)
        try:
            with torch.inference_mode():
                for count in (1, 2, 3):
                    for features in self._features([self.example()] * count):
                        plain(**features)
        except Exception as error:  # of the compiler, of the linker, of torch: all of them mean the same
            raise no_compiler(error) from error
        return plain

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
            near = TOLERANCE.get(logits.dtype, ROUGH)
            again = self._head(embedding) if embedding.ndim == 2 else embedding
            if again.shape != logits.shape or not torch.allclose(again, logits, atol=near, rtol=near):
                raise NoEmbedding(
                    f"the input of the classification head of {type(self._model).__name__} was not found;"
                    " leave out the scores that need the embedding"
                )
            self._head_is_right = True
        return _numbers(logits), _numbers(embedding)


def _last_linear(model: nn.Module, classes: int) -> nn.Module:
    heads = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == classes]
    return heads[-1] if heads else nn.Identity()  # Identity is never called: `NoEmbedding` says so


def _numbers(tensor: torch.Tensor) -> Array:
    return np.asarray(tensor.double().cpu())


def _together(parts: Sequence[Array | None]) -> Array | None:
    """One array of several, or None where there are none."""
    return None if parts[0] is None else np.concatenate([part for part in parts if part is not None])
