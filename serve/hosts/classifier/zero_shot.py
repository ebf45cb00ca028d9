"""Labels that a model was never trained on: it is asked of each one whether a sentence about it follows from the text.

Yin et al. (2019), "Benchmarking zero-shot text classification".
"""

from collections.abc import Iterator, Sequence

import numpy as np

from demur.serve.config.checkpoint_facts import CheckpointFacts
from demur.serve.config.hosts.classifier import ZeroShotConfig
from demur.serve.config.task import TaskConfig
from demur.serve.hosts.checkpoint import entailment_of
from demur.uncertainty.checks import Array

PAIRS_AT_A_TIME = 64


class LabelSentences:
    """What is said of a text, a sentence for each label of a task."""

    def __init__(self, config: ZeroShotConfig, task: TaskConfig, facts: CheckpointFacts, checkpoint: str) -> None:
        self.sentences = [config.template.replace("{}", label) for label in task.outputs]
        self._outputs = entailment_of(facts, task, checkpoint)
        self._exclusive = task.exclusive

    def pairs(self, texts: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
        """Yield each text beside each sentence, text by text, a bounded number at a time."""
        both = [(text, sentence) for text in texts for sentence in self.sentences]
        for start in range(0, len(both), PAIRS_AT_A_TIME):
            part = both[start : start + PAIRS_AT_A_TIME]
            yield [text for text, _ in part], [sentence for _, sentence in part]

    def logits(self, judged: Array) -> Array:
        """Return logits [n, ..., labels] from what the model said of each pair [n * labels, ..., outputs].

        Where labels exclude each other, they compete by how surely their sentences follow. Where they do not, each
        label's logit is ln(p / (1 - p)) of "follows" against "contradicts".
        """
        rows = judged.reshape(-1, len(self.sentences), *judged.shape[1:])
        follows = rows[..., self._outputs.follows]
        if not self._exclusive and self._outputs.contradicts is not None:
            follows = follows - rows[..., self._outputs.contradicts]
        return np.moveaxis(follows, 1, -1)
