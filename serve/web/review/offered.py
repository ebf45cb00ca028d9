"""Which labels the page of a case offers at once, where a model has too many for a page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demur.serve.config.label_table import LabelTable
from demur.serve.web.review.answering import LabelChoice
from demur.traffic.record import Record


def offered_labels(
    table: LabelTable, record: Record | None, output: Any, chosen: Iterable[str], found: Iterable[str]
) -> list[LabelChoice]:
    """Return the labels that are chosen already, then those that the model named, the most probable first, then those
    that were found.

    `record` and `output` are what the model said; None where the answer is to be given blindly. Each label is there
    once, and nothing that is not in the table.
    """
    shares = {} if record is None else _shares(record)
    candidates = {} if record is None else _candidates(output)
    if record is not None and record.label_confidence is None:
        shares = candidates | shares
    held = [label for label in chosen if label not in shares and label not in candidates]
    labels = [one for one in dict.fromkeys([*held, *shares, *candidates, *found]) if one in table.index]
    titles = table.titles_of(labels)
    return [LabelChoice(label=one, title=titles.get(one, ""), share=shares.get(one)) for one in labels]


def labels_on_page(record: Record, answers: Iterable[Any]) -> list[str]:
    """Every label that a page may name beside its choices."""
    told: list[Any] = [record.prediction, *answers]
    listed = [label for one in told if one is not None for label in ([one] if isinstance(one, str) else one)]
    return [*record.top_labels, *record.prediction_set, *listed]


def _shares(record: Record) -> dict[str, float]:
    shares: Sequence[float] = record.top_probabilities if record.label_confidence is None else record.label_confidence
    return dict(zip(record.top_labels, shares, strict=True))


def _candidates(output: Any) -> dict[str, float]:
    """The candidates that a request brought, the most probable first."""
    told = output.get("candidates") if isinstance(output, Mapping) else None
    pairs = list(told.items()) if isinstance(told, Mapping) else told if isinstance(told, list) else []
    return dict(sorted(((str(label), float(p)) for label, p in pairs), key=lambda pair: -pair[1]))
