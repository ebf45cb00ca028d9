"""Stored predictions as the traffic of a service that answers about 85%, with the labels that it would not have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.real import intents, medical_answers, readability
from benchmarks.real.archives import csv_rows
from benchmarks.real.confidence import right
from benchmarks.real.splits import SEED, halves
from demur.audit.ledger.ledger import ACTIONS, NONE, CodedColumn, Extent, Ledger
from demur.uncertainty.beta import Beta
from demur.uncertainty.checks import Array
from demur.uncertainty.feature_scores import FeatureLogistic

ANSWERED = 0.85
FOLDS = 5
REASONER = "DeepSeek-R1"

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditCase:
    """`n` predictions of one model whose right answers are all known here."""

    name: str
    about: str
    confidence: Array
    """[n], by a calibrator fitted on other rows."""

    limit: float
    """From this confidence on the service answers."""

    quality: Array
    """[n], 1 where the prediction is right, 0 where not."""

    groups: CodedColumn
    max_risk: float
    """Which share of the answers may be wrong."""

    def __len__(self) -> int:
        return len(self.quality)


@dataclass(frozen=True, kw_only=True)
class CaseSource:
    path: tuple[str, ...]
    read: Callable[[Path], AuditCase]


def read_medical(data: Path) -> AuditCase:
    """Confidence from the length of the reasoning, the number of options, and the examination."""
    known = medical_answers.questions(data)
    given = medical_answers.answers(data)[REASONER, "zero_shot"]
    sources = coded([known[qid].source for qid in given.qids])
    options = np.array([known[qid].n_options for qid in given.qids], dtype=np.float64)
    features = np.column_stack(
        [np.log(given.completion_tokens), options, np.equal.outer(sources.codes, range(len(sources.names)))]
    )

    def fitted(fit: NDArray[np.intp], test: NDArray[np.intp]) -> Array:
        score = FeatureLogistic().fit(features[fit], given.right[fit])
        return 1 - score.uncertainty(features[test])

    return _case(
        "medical questions",
        f"{REASONER}, five examinations; the confidence is a logistic regression on the length of its reasoning, the"
        " number of options and the examination, fitted on other folds",
        _in_folds(len(options), fitted),
        given.right,
        sources,
        max_risk=0.12,
    )


def read_intents(data: Path) -> AuditCase:
    """Fitted where 3% of the requests are out of scope; 18% of the traffic is."""
    read = intents.read(data)
    rng = np.random.default_rng(SEED)
    correct = (read.probabilities.argmax(axis=1) == read.classes).astype(np.float64)
    outside = read.classes == intents.OUT_OF_SCOPE
    inside_rows, outside_rows = (rng.permutation(np.flatnonzero(rows)) for rows in (~outside, outside))
    n_fit = len(inside_rows) * 2 // 5
    n_strange = round(0.03 / 0.97 * n_fit)
    fit = np.concatenate([inside_rows[:n_fit], outside_rows[:n_strange]])
    rest = np.sort(np.concatenate([inside_rows[n_fit:], outside_rows[n_strange:]]))
    top = read.probabilities.max(axis=1)
    calibrator = Beta().fit(top[fit], correct[fit])
    confidence = calibrator.confidence(top[rest])
    return AuditCase(
        name="intents",
        about=f"a small classifier; fitted with 3% of the requests out of scope, audited with"
        f" {outside[rest].mean():.0%}, so that it answers less and errs more than it was fitted to",
        confidence=confidence,
        limit=float(np.quantile(calibrator.confidence(top[fit]), 1 - ANSWERED)),
        quality=correct[rest],
        groups=coded([f"domain {number}" for number in read.domains[rest].tolist()]),
        max_risk=0.05,
    )


def read_readability(data: Path) -> AuditCase:
    """Each fold has a model of its own, and a confidence that was fitted on the other half of that fold."""
    folder = data / readability.SOURCE.folder
    whole = readability.read(folder)[0]
    assert whole.folds is not None
    languages = coded([line["lang"] for line in csv_rows(folder / readability.SOURCE.files[0])])
    correct, top = right(whole.rows), whole.rows.output.probabilities.max(axis=1)
    confidence = np.empty(len(top))
    for fold in np.unique(whole.folds):
        rows = np.flatnonzero(whole.folds == fold)
        half = halves(whole.groups[rows], times=1)[0]
        for fit, test in ((half.fit, half.test), (half.test, half.fit)):
            calibrator = Beta().fit(top[rows[fit]], correct[rows[fit]])
            confidence[rows[test]] = calibrator.confidence(top[rows[test]])
    return _case(
        "readability",
        "five mBERTs, simple or complex, five languages; calibrated (beta) on the other half of the model's own fold",
        confidence,
        correct,
        languages,
        max_risk=0.1,
    )


CASES: Mapping[str, CaseSource] = {
    "medical questions": CaseSource(path=(medical_answers.FOLDER, medical_answers.ANSWERS), read=read_medical),
    "intents": CaseSource(path=(intents.FOLDER, intents.FILE), read=read_intents),
    "readability": CaseSource(path=(readability.SOURCE.folder, *readability.SOURCE.files), read=read_readability),
}


def coded(texts: list[str]) -> CodedColumn:
    names, codes = np.unique(texts, return_inverse=True)
    return CodedColumn(names=tuple(names.tolist()), codes=codes.astype(np.int32))


def labelled_traffic(case: AuditCase, rows: NDArray[np.intp], spot_check: float, rng: np.random.Generator) -> Ledger:
    """The ledger of a service to which these rows came: all held ones are labelled, and of the answered ones a few."""
    n = len(rows)
    confidence, quality = case.confidence[rows], case.quality[rows]
    answered = confidence >= case.limit
    probability = np.where(answered, spot_check, 1.0)
    drawn = rng.random(n) < probability
    nothing = np.full(n, np.nan)
    absent = CodedColumn(names=(), codes=np.full(n, NONE, dtype=np.int32))
    return Ledger(
        extent=Extent(model=case.name, since=START, until=START.replace(month=2), as_of=START.replace(month=3)),
        ids=pa.Array.from_buffers(pa.binary(16), n, [None, pa.py_buffer(rng.bytes(16 * n))]),
        times=np.full(n, np.datetime64("2026-01-15", "us")),
        actions=CodedColumn(names=ACTIONS, codes=np.where(answered, 0, 1).astype(np.int32)),
        artifacts=CodedColumn(names=("fitted",), codes=np.zeros(n, dtype=np.int32)),
        groups=case.groups[rows],
        clusters=absent,
        predicted=None,
        true=None,
        true_probability=None,
        quality=np.where(drawn, quality, np.nan),
        sources=CodedColumn(names=("review",), codes=np.where(drawn, 0, NONE).astype(np.int32)),
        confidence=confidence,
        top_probability=nothing,
        scores={},
        set_size=nothing,
        covered=nothing,
        right_labels=nothing,
        label_probability=probability,
        drawn=drawn,
        reviewed=drawn,
        top=None,
        mentions=None,
    )


def _case(
    name: str, about: str, confidence: Array, quality: Array, groups: CodedColumn, *, max_risk: float
) -> AuditCase:
    return AuditCase(
        name=name,
        about=about,
        confidence=confidence,
        limit=float(np.quantile(confidence, 1 - ANSWERED)),
        quality=quality,
        groups=groups,
        max_risk=max_risk,
    )


def _in_folds(n: int, fitted: Callable[[NDArray[np.intp], NDArray[np.intp]], Array]) -> Array:
    """[n], what is fitted on the other folds says of each."""
    fold = np.random.default_rng(SEED).permutation(n) % FOLDS
    confidence = np.empty(n)
    for number in range(FOLDS):
        test = np.flatnonzero(fold == number)
        confidence[test] = fitted(np.flatnonzero(fold != number), test)
    return confidence
