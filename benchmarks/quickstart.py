"""What the quickstart answers wrongly under several rules, on digits as they are and corrupted.

python benchmarks/quickstart.py [--seeds 20]
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file, it finds the rooms that it lies beside

import numpy as np
import yaml

from benchmarks.real.tables import table
from demur.calibration_store.fitting import Fit, fit_selectors
from demur.serve.commands.demo import CLEAN, CORRUPTIONS
from demur.serve.config.file import ModelConfig
from demur.serve.hosts.classifier.model import Classifier
from demur.uncertainty.output import LabelledOutput, Output
from deploy.models.digits.parts import parts

ROOT = Path(__file__).resolve().parents[1]
PRESENT = "deploy/quickstart.yaml"
BEFORE = "target_risk 0.002, no gate (the quickstart of before)"


def gated(rule: Mapping[str, Any], quantile: float, score: str = "mahalanobis") -> dict[str, Any]:
    return {"kind": "all_of", "gates": [{"in_distribution": {"score": score, "quantile": quantile}}], "rule": rule}


TARGET = {"kind": "target_risk", "max_risk": 0.01}
PROMISE = {"kind": "selective_risk", "max_risk": 0.05, "delta": 0.1}
CORRECTNESS = {"confidence": {"score": "softmax_response", "calibrator": "correctness"}}
DEFAULT_SHARE = {"calibration": {"report_share": 0.4}}
RULES: Mapping[str, Mapping[str, Any]] = {
    BEFORE: {"policy": {"kind": "target_risk", "max_risk": 0.002}, **DEFAULT_SHARE},
    "target_risk 0.01 behind mahalanobis at 0.95": {"policy": gated(TARGET, 0.95), **DEFAULT_SHARE},
    "selective_risk 0.05, no gate": {"policy": PROMISE},
    PRESENT: {},
    "the same behind mahalanobis at 0.95": {"policy": gated(PROMISE, 0.95)},
    "the same behind relative_mahalanobis": {"policy": gated(PROMISE, 0.9, "relative_mahalanobis")},
    "the same behind deep_knn": {"policy": gated(PROMISE, 0.9, "deep_knn")},
    "the same with 0.1, 60% of the rows": {"policy": gated({**PROMISE, "max_risk": 0.1}, 0.9), **DEFAULT_SHARE},
    "the same with 0.1 and correctness": {"policy": gated({**PROMISE, "max_risk": 0.1}, 0.9), **CORRECTNESS},
}
"""What differs from the quickstart, by a name."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    answered: float
    wrong: float
    """The share of the answers that are wrong."""

    caught: float
    """The share of the model's errors that are held."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Means over the seeds, of what is fitted and of what is corrupted."""

    rule: str
    clean: Traffic
    corrupted: Traffic
    carried: float
    """The share of the fits whose labels carry what the rule promises."""


def measured(*, seeds: int, only: str | None = None) -> list[Measured]:
    """Fit every rule, or `only` one, by each seed, and decide about digits that nobody has seen."""
    section = yaml.safe_load((ROOT / PRESENT).read_text())["models"]["digits"]
    section["host"]["checkpoint"] = str(ROOT / section["host"]["checkpoint"])
    section["scores"] += ["relative_mahalanobis", "deep_knn"]
    section["calibration"].pop("data")
    chosen = {name: ModelConfig.model_validate({**section, **RULES[name]}) for name in RULES if only in (None, name)}
    model = Classifier.of_checkpoint(section["host"]["checkpoint"])
    there = parts()
    known = _said(model, *there["calibration"])
    found: dict[str, list[tuple[Traffic, Traffic, bool]]] = {name: [] for name in chosen}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        images, labels = there["test"]
        tests = {
            part: _said(model, np.stack([np.clip(corrupt(image, rng), 0, 1) for image in images]), labels)
            for part, corrupt in CORRUPTIONS.items()
        }
        shifted = [rows for part, rows in tests.items() if part != CLEAN]
        for name, config in chosen.items():
            fit = _fitted(config, known, seed)
            promise = fit.selector.policy.promise
            carried = promise is None or promise.feasible
            found[name].append((_decided(fit, [tests[CLEAN]]), _decided(fit, shifted), carried))
    return [
        Measured(
            rule=name,
            clean=_mean([clean for clean, _, _ in each]),
            corrupted=_mean([shifted for _, shifted, _ in each]),
            carried=float(np.mean([carried for _, _, carried in each])),
        )
        for name, each in found.items()
    ]


def _said(model: Classifier, images: Any, labels: Any) -> LabelledOutput:
    output = model.run([image[np.newaxis] for image in images], frozenset({"probabilities", "embedding"}))
    return LabelledOutput.of_classes(output, labels)


def _fitted(config: ModelConfig, known: LabelledOutput, seed: int) -> Fit:
    return fit_selectors(
        {"digits": config.recipe},
        {"digits": known},
        report=lambda *_: {},
        cross_report=lambda *_: {},
        report_share=config.calibration.report_share,
        rng=np.random.default_rng(seed),
    )


def _decided(fit: Fit, tests: Sequence[LabelledOutput]) -> Traffic:
    output = Output.concatenate([rows.output for rows in tests])
    truth = np.concatenate([rows.truth for rows in tests])
    judged = fit.selector.decide(output)
    wrong = (judged.predicted != truth).any(axis=1)
    answered = np.array([action == "answer" for action in judged.decisions.actions])
    return Traffic(
        answered=float(answered.mean()),
        wrong=float(wrong[answered].mean()) if answered.any() else np.nan,
        caught=float((~answered)[wrong].mean()) if wrong.any() else np.nan,
    )


def _mean(each: Sequence[Traffic]) -> Traffic:
    names = ("answered", "wrong", "caught")
    return Traffic(**{name: float(np.nanmean([getattr(one, name) for one in each])) for name in names})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args(arguments)
    rows = []
    for one in measured(seeds=options.seeds):
        shares = [
            getattr(part, name) for part in (one.clean, one.corrupted) for name in ("answered", "wrong", "caught")
        ]
        rows.append((one.rule, *(f"{share:.1%}" for share in shares), f"{one.carried:.0%}"))
    words = ("answered", "wrong answers", "errors held")
    header = [f"{part}: {word}" for part in ("clean", "corrupted") for word in words]
    print(table(("rule", *header, "fits that carry it"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
