"""The metrics of a report by name: what each is called in full, which way is better, and in what it is told."""

import re
from dataclasses import dataclass
from typing import Any

HIGHER, LOWER, NEAR_0, NEAR_1 = "higher is better", "lower is better", "nearer to 0 is better", "nearer to 1 is better"


@dataclass(frozen=True, kw_only=True)
class MetricWords:
    short: str
    long: str
    better: str = ""
    """Empty where neither way is."""

    unit: str = "number"
    """`share` is told as a percentage."""


def _share(short: str, long: str, better: str = "") -> MetricWords:
    return MetricWords(short=short, long=long, better=better, unit="share")


def _number(short: str, long: str, better: str = "") -> MetricWords:
    return MetricWords(short=short, long=long, better=better)


WORDS = {
    "promise": "which risk, at which level, under which assumption",
    "verdict": "what an audit says of a promise: kept, broken, or too little evidence",
    "answer": "the prediction reaches the caller",
    "held": "not answered: a person is to decide",
    "confidence": "calibrated probability that the prediction is right",
    "calibrator": "maps a score to a confidence",
    "artifact": "what one fit produced: scores, calibrator, policy; immutable, named by its content",
    "outcome": "the truth, as it became known",
    "prediction set": "labels that contain the right one with a promised probability",
    "score": "a number that is higher when the model is less sure",
    "spot check": "an answered prediction that is also reviewed, by a known probability",
}
"""Words of a report that are explained where they first stand, as docs/glossary.md has them."""

METRICS = {
    "selective_risk": _share("answers that are wrong", "selective risk: the error rate among the answered", LOWER),
    "risk": _share("predictions that are wrong", "risk: the error rate, answered or not", LOWER),
    "selective_risk_assisted": _share(
        "answers that are wrong, assisted", "augmented inverse probability weighting", LOWER
    ),
    "risk_assisted": _share("predictions that are wrong, assisted", "augmented inverse probability weighting", LOWER),
    "caught_errors": _share("errors that were not answered", "recall of errors by holding predictions back", HIGHER),
    "coverage": _share("answered", "coverage"),
    "deferral_rate": _share("held for a person", "deferral rate"),
    "abstention_rate": _share("neither answered nor held", "abstention rate"),
    "set_coverage": _share("sets with the right label", "coverage of the prediction sets", HIGHER),
    "set_miscoverage": _share("sets without the right label", "miscoverage of the prediction sets", LOWER),
    "label_coverage": _share("labels in their sets", "of all labels that hold, those in their prediction sets", HIGHER),
    "label_miscoverage": _share("labels missing from their sets", "of all labels that hold, those missing", LOWER),
    "labels_not_predicted": _share("labels not predicted", "of all labels that hold, those not predicted", LOWER),
    "row_labels_not_predicted": _share("labels of a row not predicted", "mean share over rows", LOWER),
    "set_size": _number("labels in a set", "mean size of a prediction set", LOWER),
    "set_single": _share("sets of one label", "share of prediction sets of one label", HIGHER),
    "set_empty": _share("empty sets", "share of prediction sets without a label"),
    "macro_f1": _number("macro F1", "F1, each label counting alike", HIGHER),
    "ece_plus": _number("ECE+", "probability missing from the labels that held, each label counting alike", LOWER),
    "ece": _number("ECE", "expected calibration error", LOWER),
    "mce": _number("MCE", "maximum calibration error", LOWER),
    "ace": _number("ACE", "adaptive calibration error", LOWER),
    "brier": _number("Brier", "Brier score", LOWER),
    "nll": _number("NLL", "negative log-likelihood, in nats", LOWER),
    "citl": _number("CITL", "calibration in the large", NEAR_0),
    "c_slope": _number("C-slope", "calibration slope", NEAR_1),
    "precision": _share("precision", "share of the most probable labels that hold", HIGHER),
    "recall": _share("recall", "share of the labels that hold that are among the most probable", HIGHER),
    "label_risk": _share("labels of answers that do not hold", "risk of the most probable labels of answers", LOWER),
    "auroc": _number("AUROC", "area under the receiver operating characteristic, errors as positives", HIGHER),
    "au_prc": _number("AU-PRC", "area under the precision-recall curve, errors as positives", HIGHER),
    "prr": _number("PRR", "prediction rejection ratio", HIGHER),
    "prr_50": _number("PRR to 50%", "prediction rejection ratio, rejecting half at most", HIGHER),
    "rc_auc": _number("RC-AUC", "area under the risk-coverage curve", LOWER),
    "e_aurc": _number("E-AURC", "excess area under the risk-coverage curve", LOWER),
    "ti": _number("TI", "trust index", HIGHER),
    "ti_95": _number("TI@95", "trust index at 95%", HIGHER),
    "e_auopt_rc": _number("E-AUoptRC", "excess area under the optimal risk-coverage curve", LOWER),
    "rejected_errors": _share("errors among these", "precision of rejection: errors among the least sure", HIGHER),
    "error_recall": _share("of all errors", "recall of rejection: errors that are among the least sure", HIGHER),
    "delta_macro_f1": _number("gain in macro F1", "macro F1 of the rest, less that of all", HIGHER),
}

_VARIANT = re.compile(r"(?P<base>.+?)(?:_at_(?P<k>\d+))?(?P<before>_before)?")


def metric(name: Any) -> MetricWords:
    """Return the words for a metric by its name in documents. A name that is not known is shown as it is."""
    name = str(name or "(no name)")
    if name in METRICS:
        return METRICS[name]
    parts = _VARIANT.fullmatch(name)
    base = METRICS.get(parts["base"]) if parts else None
    if parts is None or base is None:
        return MetricWords(short=name.replace("_", " "), long="")
    at = f"@{parts['k']}" if parts["k"] else ""
    when = ", before calibration" if parts["before"] and parts["base"] != "ece_plus" else ""
    return MetricWords(short=f"{base.short}{at}{when}", long=base.long, better=base.better, unit=base.unit)


def ks(names: list[str]) -> list[int]:
    """Return every k for which there are metrics of the k most probable labels, ascending."""
    found = {parts["k"] for name in names if (parts := _VARIANT.fullmatch(name)) and parts["k"]}
    return sorted(int(k) for k in found)
