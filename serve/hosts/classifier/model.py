"""Classifiers of the transformers library: any image or text classifier, from a folder or by its name on a hub."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoImageProcessor
from transformers.utils import logging as transformers_logging

from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec, ModelInput, example_of
from demur.serve.contract.model import DeviceScore
from demur.serve.hosts.checkpoint import NoEmbedding, check_suits, local_folder
from demur.serve.hosts.classifier.device_scores import DEVICES, device_score, made_of, probabilities_of_passes
from demur.serve.hosts.classifier.image_features import ImageFeatures, check_scale
from demur.serve.hosts.classifier.loading import compiled, load_network, no_compiler
from demur.serve.hosts.classifier.mc_dropout import DropoutPasses
from demur.serve.hosts.classifier.text_features import TextFeatures
from demur.serve.hosts.classifier.zero_shot import LabelSentences
from demur.uncertainty.checks import Array
from demur.uncertainty.output import Need, Output
from demur.uncertainty.scores import Formula, Score

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

    def on_device(self, name: str, score: Score) -> DeviceScore | None:
        """Return a fitted score as the model's device makes it; None where it stays in NumPy: on a CPU, and where what
        the score reads is put together from several runs of the model."""
        if self.device.type not in DEVICES or self._sentences is not None:
            return None
        if isinstance(score, Formula) and self._link != "softmax":  # passes are those of labels that exclude each other
            return None
        return device_score(name, score, self.device)

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need], scores: Sequence[DeviceScore] = ()) -> Output:
        """Return what was asked for about each input, and nothing that was not. Of `scores` only the values leave the
        device, together with the logits."""
        if self._sentences is not None and "embedding" in needs:
            raise NoEmbedding("with host.zero_shot a text has no embedding; leave out the scores that need one")
        with torch.inference_mode():
            found = [self._found(features, needs, scores) for features in self._features(inputs)]
        said, embeddings, repeated, *made = (_together(part) for part in zip(*found, strict=True))
        assert said is not None
        if self._sentences is not None:
            said = self._sentences.logits(said)
            repeated = None if repeated is None else self._sentences.logits(repeated)
        output = Output.from_logits(said, link=self._link, embedding=embeddings, mc_logits=repeated, tree=self._tree)
        return output if not made else replace(output, device_scores=_named(scores, made))

    def _found(self, features: Features, needs: frozenset[Need], scores: Sequence[DeviceScore]) -> list[Array | None]:
        """Logits, embedding, logits of dropout passes, and each score, as far as they are wanted."""
        read = {score.part for score in scores}
        parts: dict[Need, torch.Tensor] = {}
        if "embedding" in needs | read:
            logits, parts["embedding"] = self._forward_with_embedding(features)
        else:
            logits = self._plain(**features).logits
        passes = self._passes.run(features, self._mc_passes) if "mc_probabilities" in needs | read else None
        made: list[torch.Tensor] = []
        if scores:
            if passes is not None:
                parts["mc_probabilities"] = probabilities_of_passes(passes)
            made = made_of(scores, parts)
        embedding = parts["embedding"] if "embedding" in needs else None
        return _numbers([logits, embedding, passes if "mc_probabilities" in needs else None, *made])

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

    def _forward_with_embedding(self, features: Features) -> tuple[torch.Tensor, torch.Tensor]:
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
        return logits, embedding


def _last_linear(model: nn.Module, classes: int) -> nn.Module:
    heads = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == classes]
    return heads[-1] if heads else nn.Identity()  # Identity is never called: `NoEmbedding` says so


def _numbers(tensors: Sequence[torch.Tensor | None]) -> list[Array | None]:
    """Arrays of float64 of tensors [n, ...], by one transfer from the device; None where there is no tensor."""
    there = [tensor for tensor in tensors if tensor is not None]
    if len(there) == 1:
        together = there[0].flatten(1)
    else:
        together = torch.cat([tensor.reshape(len(tensor), -1) for tensor in there], dim=1)  # of the widest type
    columns = iter(together.cpu().double().split([tensor[:1].numel() for tensor in there], dim=1))
    return [None if tensor is None else np.asarray(next(columns).reshape(tensor.shape)) for tensor in tensors]


def _named(scores: Sequence[DeviceScore], made: Sequence[Array | None]) -> NDArray[np.void]:
    """[n], with a field for each score."""
    table = np.empty(len(cast(Array, made[0])), dtype=[(score.name, np.float64) for score in scores])
    for score, values in zip(scores, made, strict=True):
        table[score.name] = values
    return table


def _together(parts: Sequence[Array | None]) -> Array | None:
    """One array of several, or None where there are none."""
    return None if parts[0] is None else np.concatenate([part for part in parts if part is not None])
