"""A ledger put together from pieces of tables, as they come from a database or from files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from demur.audit.ledger.answers import (
    AnswerColumn,
    Lists,
    covered_share,
    given_to_right,
    held,
    how_many,
    in_one_alphabet,
    mentions_of,
    quality_of,
    read_answers,
    read_lists,
    right_labels,
    text_codes,
)
from demur.audit.ledger.ledger import ACTIONS, CodedColumn, Extent, Ledger, Mentions, TopColumns
from demur.traffic.outcomes import Precedence
from demur.uncertainty.checks import Array, Mask

NUMBERS = ("confidence", "top_probability", "label_probability")
TEXTS = ("action", "artifact", "group", "cluster")
LISTS = ("prediction_set", "top_labels", "top_probabilities")


class UnreadableScores(ValueError):
    """What is kept as the scores of a record is no object of numbers. Correct it, or leave its time out of the
    audit."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Some records, with the outcome that counts of each. Columns of Arrow; a dictionary for each text."""

    ids: NDArray[np.uint8]
    """[n, 16]"""

    times: NDArray[np.datetime64]
    texts: dict[str, pa.ChunkedArray]
    predictions: pa.ChunkedArray
    labels: pa.Array
    """JSON of the outcome that counts, a dictionary; null where there is none."""

    sources: pa.Array
    numbers: dict[str, Array]
    scores: dict[str, Array]
    set_size: Array
    covered: Array
    right_labels: Array
    drawn: Mask
    reviewed: Mask
    true_probability: Array
    top: TopColumns | None
    mentions: Mentions | None


class Gathering:
    """Takes records and their outcomes, part by part, and makes one ledger of them.

    A batch of records has the columns `id`, `created_at`, `prediction` (JSON), `prediction_set`, `scores` (JSON, or a
    struct), `asked` (whether there is a case about it), `label_confidence` (null where labels exclude each other), and
    those of `NUMBERS`, `TEXTS` and `LISTS`. One of outcomes has `id`, `record_id`, `label` (JSON) and
    `source`; those of records that are not in the part are left alone.
    """

    def __init__(self, precedence: Precedence) -> None:
        self._precedence = precedence
        self._parts: list[_Part] = []
        self._records: list[dict[str, Any]] = []
        self._outcomes: list[pa.RecordBatch] = []

    def add_records(self, batch: pa.RecordBatch) -> None:
        columns: dict[str, Any] = {name: _encoded(batch.column(name)) for name in (*TEXTS, "prediction")}
        columns |= {name: _floats(batch.column(name)) for name in NUMBERS}
        columns["id"] = _bytes(batch.column("id"))
        columns["created_at"] = batch.column("created_at").cast(pa.timestamp("us")).to_numpy()
        columns["scores"] = score_columns(batch.column("scores"))
        columns["asked"] = batch.column("asked").to_numpy(zero_copy_only=False)
        for name in ("prediction_set", "top_labels"):
            columns[name] = _encoded_lists(batch.column(name))
        columns["top_probabilities"] = _floats(batch.column("top_probabilities").flatten())
        columns["n"] = batch.num_rows
        if batch.column("label_confidence").null_count < batch.num_rows:
            columns["label_confidence"] = batch.column("label_confidence")
        self._records.append(columns)

    def add_outcomes(self, batch: pa.RecordBatch) -> None:
        self._outcomes.append(batch)

    def end_part(self) -> None:
        """What was added since the last end belongs together: no outcome added later is about these records."""
        batches, self._records = self._records, []
        outcomes, self._outcomes = self._outcomes, []
        if not batches:
            return
        ids = np.concatenate([columns["id"] for columns in batches])
        labels, sources, by_review = self._that_count(ids, outcomes)
        truths = read_answers(labels)
        sets = read_lists(_chunks(batches, "prediction_set"))
        tops = read_lists(_chunks(batches, "top_labels"))
        given = np.concatenate([columns["top_probabilities"] for columns in batches])
        predictions = _chunks(batches, "prediction")
        predicted = read_answers(predictions)
        exclusive = predicted.exclusive and truths.exclusive
        numbers = {name: np.concatenate([columns[name] for columns in batches]) for name in NUMBERS}
        asked = np.concatenate([columns["asked"] for columns in batches])
        probability = numbers["label_probability"]
        drawn = (probability == 1) | ((probability > 0) & asked)  # as `demur.review.drawn` has it
        self._parts.append(
            _Part(
                ids=ids,
                times=np.concatenate([columns["created_at"] for columns in batches]),
                texts={name: _chunks(batches, name) for name in TEXTS},
                predictions=predictions,
                labels=labels,
                sources=sources,
                numbers=numbers,
                scores=_beside_each_other([(columns["n"], columns["scores"]) for columns in batches]),
                set_size=sets.sizes.astype(np.float64),
                covered=covered_share(sets, truths),
                right_labels=right_labels(truths),
                drawn=drawn,
                reviewed=drawn & by_review,
                true_probability=given_to_right(tops, given, truths),
                top=_top(batches, tops, given, truths),
                mentions=None if exclusive else mentions_of(predicted, truths, tops, given),
            )
        )

    def _that_count(self, ids: NDArray[np.uint8], outcomes: list[pa.RecordBatch]) -> tuple[pa.Array, pa.Array, Mask]:
        """Label and source of the outcome that counts of each record, and whether any is from a reviewer."""
        n, by_review = len(ids), np.zeros(len(ids), dtype=bool)
        table = pa.Table.from_batches(outcomes) if outcomes else None
        if table is None or not table.num_rows:
            nothing = pa.nulls(n, pa.string()).dictionary_encode()
            return nothing, nothing, by_review
        about = np.concatenate([_bytes(chunk) for chunk in table["record_id"].chunks])
        rows = pc.index_in(_binary(about), value_set=_binary(ids)).fill_null(-1).to_numpy()
        sources = text_codes(table["source"])
        by_review[rows[(sources.codes == _place(sources.names, "review")) & (rows >= 0)]] = True
        ranks = {source: rank for rank, source in reversed(list(enumerate(self._precedence)))}
        rank = np.array([ranks.get(name, len(self._precedence)) for name in sources.names])[sources.codes]
        order = np.lexsort((table["id"].to_numpy(), -rank))
        order = order[rows[order] >= 0]
        counts = np.full(n, -1, dtype=np.int64)
        counts[rows[order]] = order  # of several about one record the last one stays: best rank, then latest
        at = pa.array(counts, mask=counts < 0)
        return (
            _encoded(table["label"].combine_chunks()).take(at),
            _encoded(table["source"].combine_chunks()).take(at),
            by_review,
        )

    def ledger(self, extent: Extent, *, exact: bool) -> Ledger:
        """All of it, in order. Takes the parts apart on the way, so that they are not in memory twice."""
        self.end_part()
        parts, self._parts = self._parts, []
        if not parts:
            return empty(extent)
        predicted = read_answers(pa.chunked_array([chunk for part in parts for chunk in part.predictions.chunks]))
        true = read_answers(pa.chunked_array([part.labels for part in parts]))
        exclusive = predicted.exclusive and true.exclusive
        in_codes = in_one_alphabet([predicted, true]) if exclusive else None
        texts = {name: _taken(parts, name) for name in TEXTS}
        ledger = Ledger(
            extent=extent,
            ids=_binary(np.concatenate([part.ids for part in parts])),
            times=np.concatenate([part.times for part in parts]),
            actions=_actions(texts["action"]),
            artifacts=texts["artifact"],
            groups=texts["group"],
            clusters=texts["cluster"],
            predicted=in_codes[0] if in_codes else None,
            true=in_codes[1] if in_codes else None,
            true_probability=np.concatenate([part.true_probability for part in parts]) if exclusive else None,
            quality=quality_of(predicted, true, exact=exact),
            sources=text_codes(pa.chunked_array([part.sources for part in parts])),
            confidence=_pulled(parts, "confidence"),
            top_probability=_pulled(parts, "top_probability"),
            scores=_joined_scores(parts),
            set_size=np.concatenate([part.set_size for part in parts]),
            covered=np.concatenate([part.covered for part in parts]),
            right_labels=np.concatenate([part.right_labels for part in parts]),
            label_probability=_pulled(parts, "label_probability"),
            drawn=np.concatenate([part.drawn for part in parts]),
            reviewed=np.concatenate([part.reviewed for part in parts]),
            top=_joined_tops([(len(part.times), part.top) for part in parts]),
            mentions=None if exclusive else _joined_mentions([(len(part.times), part.mentions) for part in parts]),
        )
        return in_order(ledger)


def empty(extent: Extent) -> Ledger:
    """A ledger without a record."""
    nothing, none = np.empty(0), CodedColumn(names=(), codes=np.empty(0, dtype=np.int32))
    return Ledger(
        extent=extent,
        ids=pa.array([], pa.binary(16)),
        times=np.empty(0, dtype="datetime64[us]"),
        actions=replace(none, names=ACTIONS),
        artifacts=none,
        groups=none,
        clusters=none,
        predicted=none,
        true=none,
        true_probability=nothing,
        quality=nothing,
        sources=none,
        confidence=nothing,
        top_probability=nothing,
        scores={},
        set_size=nothing,
        covered=nothing,
        right_labels=nothing,
        label_probability=nothing,
        drawn=np.empty(0, dtype=bool),
        reviewed=np.empty(0, dtype=bool),
        top=None,
        mentions=None,
    )


def in_order(ledger: Ledger) -> Ledger:
    """Return the records in order of time; those of one moment are in the order of their ids."""
    halves = _bytes(ledger.ids).view(">u8").astype(np.uint64)
    high, low, times = halves[:, 0], halves[:, 1], ledger.times
    later = times[1:] > times[:-1]
    ids_grow = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    if bool((later | ((times[1:] == times[:-1]) & ids_grow)).all()):
        return ledger
    return ledger.rows(np.lexsort((low, high, times)))


def _actions(coded: CodedColumn) -> CodedColumn:
    places = np.array([*(ACTIONS.index(name) for name in coded.names), -1], dtype=np.int32)
    return CodedColumn(names=ACTIONS, codes=places[coded.codes])


def _taken(parts: Sequence[_Part], name: str) -> CodedColumn:
    return text_codes(pa.chunked_array([chunk for part in parts for chunk in part.texts.pop(name).chunks]))


def _pulled(parts: Sequence[_Part], name: str) -> Array:
    return np.concatenate([part.numbers.pop(name) for part in parts])


def _joined_scores(parts: Sequence[_Part]) -> dict[str, Array]:
    """Those that some record has, in order of the alphabet."""
    names = sorted({name for part in parts for name in part.scores})
    columns = {
        name: np.concatenate(
            [part.scores.pop(name) if name in part.scores else np.full(len(part.times), np.nan) for part in parts]
        )
        for name in names
    }
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


def _beside_each_other(batches: Sequence[tuple[int, dict[str, Array]]]) -> dict[str, Array]:
    names = sorted({name for _, columns in batches for name in columns})
    return {name: np.concatenate([columns.get(name, np.full(n, np.nan)) for n, columns in batches]) for name in names}


def _chunks(batches: Sequence[dict[str, Any]], name: str) -> pa.ChunkedArray:
    return pa.chunked_array([columns[name] for columns in batches])


def _encoded(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column
    return column.cast(pa.string()).dictionary_encode()


def _encoded_lists(column: pa.Array) -> pa.Array:
    """Return lists of labels as lists of codes: few bytes, however long the labels are."""
    values = _encoded(column.flatten())
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(column).fill_null(0).to_numpy())])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _floats(column: pa.Array) -> Array:
    values: Array = column.cast(pa.float64()).fill_null(np.nan).to_numpy().copy()
    return values


def _bytes(ids: Any) -> NDArray[np.uint8]:
    """[n, 16], a copy."""
    storage = ids.storage if isinstance(ids, pa.ExtensionArray) else ids
    if not len(storage):
        return np.empty((0, 16), dtype=np.uint8)
    raw = np.frombuffer(storage.buffers()[1], np.uint8)
    return raw[16 * storage.offset : 16 * (storage.offset + len(storage))].reshape(-1, 16).copy()


def _binary(raw: NDArray[np.uint8]) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw), [None, pa.py_buffer(raw)])


def _place(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -2


def score_columns(column: pa.Array) -> dict[str, Array]:
    """Each score as a column, from a struct or from texts of JSON; NaN where a row has none or null."""
    if pa.types.is_struct(column.type):
        return {field.name: _floats(values) for field, values in zip(column.type, column.flatten(), strict=True)}
    if not len(column):
        return {}
    lines = pc.replace_substring(column, "\n", " ")  # JSON breaks lines between values only
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")[0].as_buffer()
    if text.size == 3 * len(column) - 1:  # so many times {}
        return {}
    try:
        table = arrow_json.read_json(pa.BufferReader(text), arrow_json.ReadOptions(block_size=text.size + 1))
        return {name: _floats(table[name].combine_chunks()) for name in table.column_names}
    except pa.ArrowInvalid as error:
        raise UnreadableScores(
            f"the scores of some record are not an object of numbers: {_first_line(error)}"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _top(batches: Sequence[dict[str, Any]], tops: Lists, given: Array, true: AnswerColumn) -> TopColumns | None:
    """None where labels exclude each other; rows without calibrated probabilities are empty."""
    if not any("label_confidence" in columns for columns in batches):
        return None
    several = np.concatenate(
        [
            columns["label_confidence"].is_valid().to_numpy(zero_copy_only=False)
            if "label_confidence" in columns
            else np.zeros(columns["n"], dtype=bool)
            for columns in batches
        ]
    )
    chosen = several[tops.rows]
    row, k = tops.rows[chosen], int(tops.sizes[several].max(initial=0))
    rank = (np.arange(len(tops.labels)) - np.repeat(np.cumsum(tops.sizes) - tops.sizes, tops.sizes))[chosen]
    hits = np.where(true.known[row], held(tops, true)[chosen], np.nan)
    calibrated = [
        _floats(columns["label_confidence"].flatten()) for columns in batches if "label_confidence" in columns
    ]

    def grid(values: Array) -> Array:
        filled = np.full((len(tops.sizes), k), np.nan)
        filled[row, rank] = values
        return filled

    return TopColumns(
        probabilities=grid(given[chosen]),
        calibrated=grid(np.concatenate(calibrated)),
        hits=grid(hits),
        right=np.where(several & true.known, how_many(true), np.nan),
    )


def _joined_tops(parts: Sequence[tuple[int, TopColumns | None]]) -> TopColumns | None:
    """One below the other, as wide as the widest."""
    k = max((top.hits.shape[1] for _, top in parts if top), default=None)
    if k is None:
        return None
    columns = []
    for name in ("probabilities", "calibrated", "hits"):
        grid = np.full((sum(n for n, _ in parts), k), np.nan)
        first = 0
        for n, top in parts:
            if top is not None:
                values = getattr(top, name)
                grid[first : first + n, : values.shape[1]] = values
            first += n
        columns.append(grid)
    right = np.concatenate([np.full(n, np.nan) if top is None else top.right for n, top in parts])
    return TopColumns(probabilities=columns[0], calibrated=columns[1], hits=columns[2], right=right)


def _joined_mentions(parts: Sequence[tuple[int, Mentions | None]]) -> Mentions:
    names = tuple(sorted({name for _, each in parts if each for name in each.labels.names}))
    place = {name: at for at, name in enumerate(names)}
    first, rows, codes, found = 0, [], [], []
    for n, each in parts:
        if each is not None:
            rows.append(each.rows + first)
            codes.append(np.array([place[name] for name in each.labels.names], dtype=np.int32)[each.labels.codes])
            found.append(each)
        first += n
    return Mentions(
        rows=np.concatenate(rows),
        labels=CodedColumn(names=names, codes=np.concatenate(codes)),
        predicted=np.concatenate([each.predicted for each in found]),
        right=np.concatenate([each.right for each in found]),
        probability=np.concatenate([each.probability for each in found]),
    )
