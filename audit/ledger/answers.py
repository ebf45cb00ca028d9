"""Predictions and outcomes as codes: each different answer is read once, however many rows give it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from demur.audit.ledger.ledger import NONE, UNLOGGED, CodedColumn, Mentions
from demur.audit.metrics.likeness import likeness
from demur.traffic.record import Answer
from demur.uncertainty.checks import Array, Mask

Codes = NDArray[np.int32]


def text_codes(column: pa.ChunkedArray | pa.Array) -> CodedColumn:
    """[n], each text as its place among those that occur, in order of the alphabet."""
    texts, codes = _encoded(column)
    order = np.asarray(pc.sort_indices(texts))
    place = np.empty(len(order) + 1, dtype=np.int32)  # one more, for NONE to point at
    place[order] = np.arange(len(order), dtype=np.int32)
    place[NONE] = NONE
    return CodedColumn(names=tuple(texts.take(order).to_pylist()), codes=place[codes])


def _encoded(column: pa.ChunkedArray | pa.Array) -> tuple[pa.Array, Codes]:
    """The different texts that occur, and where in them each row points."""
    chunks = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if not pa.types.is_dictionary(chunks.type):
        chunks = chunks.dictionary_encode()
    encoded = chunks.unify_dictionaries().combine_chunks()
    codes = encoded.indices.fill_null(NONE).to_numpy().astype(np.int32, copy=False)
    used = np.bincount(codes[codes != NONE], minlength=len(encoded.dictionary)) > 0
    if used.all():
        return encoded.dictionary, codes
    place = np.append(np.cumsum(used, dtype=np.int32) - 1, np.int32(NONE)).astype(np.int32)
    return encoded.dictionary.filter(pa.array(used)), place[codes]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerColumn:
    """[n], answers that were written as JSON: one label each, or a list of labels; or none."""

    values: Sequence[Answer]
    codes: Codes
    """[n], places among `values`, or `NONE`."""

    @property
    def exclusive(self) -> bool:
        """Whether each is one label."""
        return not any(isinstance(value, list) for value in self.values)

    @property
    def known(self) -> Mask:
        return np.not_equal(self.codes, NONE)


def read_answers(column: pa.ChunkedArray | pa.Array) -> AnswerColumn:
    """[n], from texts of JSON."""
    texts, codes = _encoded(column)
    return AnswerColumn(values=[orjson.loads(text) for text in texts.to_pylist()], codes=codes)


def in_one_alphabet(answers: Sequence[AnswerColumn]) -> list[CodedColumn]:
    """Labels that exclude each other, all with the same codes."""
    names = tuple(sorted({str(value) for each in answers for value in each.values}))
    place = {name: at for at, name in enumerate(names)}
    coded = []
    for each in answers:
        places = np.array([*(place[str(value)] for value in each.values), NONE], dtype=np.int32)
        coded.append(CodedColumn(names=names, codes=places[each.codes]))
    return coded


def quality_of(predicted: AnswerColumn, true: AnswerColumn, *, exact: bool) -> Array:
    """[n], how right each prediction was: 1 or 0; of label sets their Jaccard similarity, unless it is to be `exact`.

    NaN without an outcome; 0 where there was no prediction, but an outcome.
    """
    quality = np.full(len(true.codes), np.nan)
    known = np.flatnonzero(true.known)
    if not len(known):
        return quality
    width = len(predicted.values) + 1
    pairs, at = np.unique(true.codes[known].astype(np.int64) * width + predicted.codes[known] + 1, return_inverse=True)
    worth = [
        likeness(predicted.values[guess - 1] if guess else None, true.values[truth], exact=exact)
        for truth, guess in ((int(pair) // width, int(pair) % width) for pair in pairs)
    ]
    quality[known] = np.array(worth)[at]
    return quality


@dataclass(frozen=True, kw_only=True, eq=False)
class Lists:
    """[n], lists of labels."""

    names: pa.Array
    """The different labels."""

    labels: Codes
    """Of all lists, one after the other: places among `names`."""

    sizes: NDArray[np.int32]
    """[n], how long each is; 0 for one that is not there."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """To which list each of `labels` belongs."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def read_lists(column: pa.ChunkedArray | pa.Array) -> Lists:
    sizes = pc.list_value_length(column).fill_null(0)
    names, labels = _encoded(pc.list_flatten(column))
    return Lists(names=names, labels=labels, sizes=sizes.to_numpy().astype(np.int32, copy=False))


def held(lists: Lists, true: AnswerColumn) -> Mask:
    """For each label of each list, whether it is the right one, or one of the right ones. False without an outcome."""
    place = {name: at for at, name in enumerate(lists.names.to_pylist())}
    truths = [_listed(value) for value in true.values]
    right = np.zeros((len(truths) + 1, len(place)), dtype=bool) if len(truths) * len(place) < SMALL else None
    rows = lists.rows
    if right is not None:
        for at, truth in enumerate(truths):
            right[at, [place[label] for label in truth if label in place]] = True
        return right[true.codes[rows], lists.labels]  # NONE points at the last row, in which nothing is right
    keys = np.array(
        [at * len(place) + place[label] for at, truth in enumerate(truths) for label in truth if label in place],
        dtype=np.int64,
    )
    return np.isin(true.codes[rows].astype(np.int64) * len(place) + lists.labels, keys) & true.known[rows]


SMALL = 10_000_000
"""Up to so many pairs of an answer and a label, a table of all of them is the quickest way to look one up."""


def given_to_right(lists: Lists, probabilities: Array, true: AnswerColumn) -> Array:
    """[n], what the right label of each has among the `probabilities` of the lists' labels; UNLOGGED where it is not
    among them, NaN without an outcome."""
    found = held(lists, true)
    given = np.bincount(lists.rows[found], weights=probabilities[found], minlength=len(lists.sizes))
    there = np.bincount(lists.rows[found], minlength=len(lists.sizes)) > 0
    return np.where(true.known, np.where(there, given, UNLOGGED), np.nan)


def mentions_of(predicted: AnswerColumn, true: AnswerColumn, tops: Lists, probabilities: Array) -> Mentions:
    """Each label that is predicted or right in a row with an outcome: by row, and in order of the alphabet."""
    names = sorted({label for each in (predicted, true) for value in each.values for label in _listed(value)})
    place = {name: at for at, name in enumerate(names)}
    known = np.flatnonzero(true.known)
    said, right = (_pairs(answers, known, place) for answers in (predicted, true))
    pairs = np.union1d(said, right)
    places = np.array([*(place.get(name, NONE) for name in tops.names.to_pylist()), NONE])[tops.labels]
    top = np.flatnonzero(places != NONE)
    keys = tops.rows[top] * len(names) + places[top]
    order = np.argsort(keys, kind="stable")
    found = np.searchsorted(keys[order], pairs)
    at = order[np.minimum(found, len(order) - 1)] if len(order) else np.zeros(len(pairs), dtype=np.int64)
    there = keys[at] == pairs if len(order) else np.zeros(len(pairs), dtype=bool)
    rows, labels = np.divmod(pairs, max(len(names), 1))
    return Mentions(
        rows=rows.astype(np.intp),
        labels=CodedColumn(names=tuple(names), codes=labels.astype(np.int32)),
        predicted=np.isin(pairs, said),
        right=np.isin(pairs, right),
        probability=np.where(there, probabilities[top[at]] if len(top) else UNLOGGED, UNLOGGED),
    )


def _pairs(answers: AnswerColumn, rows: NDArray[np.intp], place: dict[str, int]) -> NDArray[np.int64]:
    """Each label of these rows: the row times how many labels there are, plus the place of the label."""
    labels = [sorted({place[label] for label in _listed(value)}) for value in answers.values]
    sizes = np.array([*map(len, labels), 0])
    flat = np.array([label for each in labels for label in each], dtype=np.int64)
    begins = np.cumsum(sizes) - sizes
    codes = answers.codes[rows]
    n = sizes[codes]
    within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    pairs: NDArray[np.int64] = np.repeat(rows, n) * len(place) + flat[np.repeat(begins[codes], n) + within]
    return pairs


def _listed(value: Answer) -> list[str]:
    return value if isinstance(value, list) else [value]


def how_many(true: AnswerColumn) -> Array:
    """[n], how many different labels are right; 0 without an outcome."""
    found = np.array([*(len(set(value)) if isinstance(value, list) else 1 for value in true.values), 0])[true.codes]
    return np.asarray(found, dtype=np.float64)


def covered_share(lists: Lists, true: AnswerColumn) -> Array:
    """[n], which share of the right labels each list holds; NaN without an outcome."""
    found = np.bincount(lists.rows[held(lists, true)], minlength=len(lists.sizes))
    wanted = how_many(true)
    share = np.where(wanted > 0, found / np.maximum(wanted, 1), 1.0)  # nothing was to be held, and nothing is missing
    share[~true.known] = np.nan
    return share


def right_labels(true: AnswerColumn) -> Array:
    """[n], how many different labels are right; NaN without an outcome."""
    return np.where(true.known, how_many(true), np.nan)
