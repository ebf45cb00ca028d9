"""Labelled examples before a question: the nearest ones of each input, and never the input itself."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from demur.serve.config.plain_text import plain
from demur.serve.config.prompt import FewShotConfig
from demur.serve.contract.inputs import Conversation, InputLimits, InvalidRequest, ModelInput, Question
from demur.serve.contract.messages import text_of
from demur.serve.contract.reading.inputs import read_input
from demur.serve.contract.reading.spread_rows import gathered
from demur.serve.hosts.checkpoint import fingerprint, local_folder
from demur.serve.hosts.language.forms import Example, Form, UnfitExample
from demur.traffic.dataset import read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.record import Answer

Reviewed = Callable[[], Iterable[tuple[Any, Answer]]]
"""Inputs of the log, as requests hold them, each with its outcome."""

LIMITS = InputLimits(text_characters=10**7, image_pixels=1)
"""Of examples: whoever wrote the file knows how long they are."""


class Embedding(Protocol):
    """From texts to rows [n, d] whose distances say how much they have in common."""

    def fit(self, texts: Sequence[str]) -> Any: ...

    def of(self, text: str) -> Any: ...


class CharacterNgrams:
    """`tfidf`: pieces of two to four characters, weighted by how rare they are among the examples."""

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer  # here: it takes a second, and few need it

        self._vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True)

    def fit(self, texts: Sequence[str]) -> Any:
        return self._vectorizer.fit_transform(texts)

    def of(self, text: str) -> Any:
        return self._vectorizer.transform([text])


class Encoder:
    """The last layer of a transformers encoder, averaged over the tokens of a text."""

    def __init__(self, folder: str) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self._torch = torch
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder).eval()
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        longest = getattr(self._model.config, "max_position_embeddings", 512)
        self._longest = min(self._tokenizer.model_max_length, longest)

    def fit(self, texts: Sequence[str]) -> Any:
        blocks = [self._mean(texts[start : start + 32]) for start in range(0, len(texts), 32)]
        return np.concatenate(blocks)

    def of(self, text: str) -> Any:
        return self._mean([text])

    def _mean(self, texts: Sequence[str]) -> Any:
        encoded = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
        )
        with self._torch.inference_mode():
            states = self._model(**encoded).last_hidden_state
        mask = encoded["attention_mask"].unsqueeze(-1)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return np.asarray(mean.float().cpu(), dtype=np.float64)


class FewShot:
    """The `k` nearest of the labelled examples, by the cosine of their embeddings."""

    def __init__(self, examples: Sequence[Example], *, k: int, embedding: Embedding) -> None:
        if not examples:
            raise UnfitExample("there are no labelled examples")
        self._examples = list(examples)
        self._k = k
        self._embedding = embedding
        self._same = [_the_same(value) for value, _ in self._examples]
        self._copies = Counter(self._same)
        from sklearn.neighbors import NearestNeighbors  # here, for the same reason

        self._index = NearestNeighbors(metric="cosine", algorithm="brute")
        self._index.fit(embedding.fit([_text(value) for value, _ in self._examples]))

    def nearest(self, value: ModelInput) -> list[Example]:
        """At most `k` examples, the nearest last. Examples with the same input are left out, however often they occur
        and whatever their case and blanks; equally near ones keep the order in which they were given."""
        same = _the_same(value)
        wanted = min(len(self._examples), self._k + self._copies[same])
        distances, found = self._index.kneighbors(self._embedding.of(_text(value)), n_neighbors=wanted)
        by_distance = sorted(zip(distances[0].tolist(), found[0].tolist(), strict=True))
        others = [index for _, index in by_distance if self._same[index] != same]
        return [self._examples[index] for index in reversed(others[: self._k])]


def few_shot_from(
    config: FewShotConfig, form: Form, reviewed: Reviewed | None = None, *, file_form: FileForm | None = None
) -> FewShot | None:
    """The examples that are configured; None where the log has none yet.

    Every row of a file must fit the task, or `UnfitExample` or `BadDataFile` is raised; `file_form` says how labelled
    files of this model are read, where the configuration of the examples does not. `reviewed` is asked once, where
    the examples are those of the log; what does not fit there is left out, because tasks change and the log does not.
    """
    if isinstance(config.examples, Path):
        examples = examples_of(config.examples, form, config.form(file_form or FileForm()))
    else:
        if reviewed is None:
            raise UnfitExample("few_shot.examples: the log is not at hand here; name a labelled file instead")
        examples = []
        for value, label in reviewed():
            with suppress(InvalidRequest, UnfitExample):
                examples.append(_fitting(value, label, form))
        if not examples:
            return None
    embedding = CharacterNgrams() if config.embedding == "tfidf" else Encoder(str(local_folder(config.embedding)))
    return FewShot(examples, k=config.k, embedding=embedding)


def examples_of(path: Path, form: Form, file_form: FileForm) -> list[Example]:
    """The examples of a labelled file. Raises `UnfitExample` or `BadDataFile`."""
    rows = read_labelled_file(path, file_form)
    examples = []
    for number, (value, label) in enumerate(zip(rows.inputs, rows.labels, strict=True), start=1):
        try:
            examples.append(_fitting(value, label, form))
        except (InvalidRequest, UnfitExample) as error:
            raise UnfitExample(f"few_shot.examples: {rows.path}, row {number}: {error}") from None
    return examples


def _fitting(value: Any, label: Answer, form: Form) -> Example:
    example = read_input(gathered(value, form.spec), form.spec, LIMITS), label
    form.asked(form.example, [example])
    return example


def embedding_fingerprint(embedding: str) -> str:
    """What an embedding is: its name, or the contents of its folder."""
    if embedding == "tfidf":
        return embedding
    return fingerprint(local_folder(embedding))


def _text(value: ModelInput) -> str:
    if isinstance(value, Question):
        return "\n".join([value.question, *value.options])
    if isinstance(value, Conversation):
        return "\n".join(map(text_of, value.messages))
    assert isinstance(value, str)
    return value


def _the_same(value: ModelInput) -> str:
    """A name that inputs share which are the same but for case and blanks, or for the order of their options."""
    if isinstance(value, Question):
        parts = [plain(value.question), *sorted(plain(option) for option in value.options)]
    else:
        parts = [plain(_text(value))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
