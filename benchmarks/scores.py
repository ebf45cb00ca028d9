"""What a score costs, beside the model that it judges; and passes with dropout, beside plain ones.

Times are medians over repeats that take turns, so that what else the machine does falls on all alike. Ratios are within
one run. Run it with one thread for each core that is free: `python -m benchmarks.scores --threads 2`.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import BertConfig, BertForSequenceClassification

from demur.serve.hosts.classifier.mc_dropout import DropoutPasses
from demur.serve.hosts.classifier.model import Classifier
from demur.uncertainty.combination import COMBINATIONS
from demur.uncertainty.output import LabelledOutput, Link, Output
from demur.uncertainty.scores import ONLY_FOR, SCORES, Score

ROOT = Path(__file__).parent.parent
ROWS = 64
PASSES = 20
FITTED = 1000
DIMENSIONS = 64
SETTINGS = {"mahalanobis": {"shrinkage": 0.05}, "relative_mahalanobis": {"shrinkage": 0.05}}
TOKENS = 64


def times(jobs: Mapping[str, Callable[[], object]], repeats: int, title: str) -> dict[str, float]:
    """Median seconds of each job; the jobs take turns."""
    seen: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()  # warm up
    for _ in track(range(repeats), description=title, transient=True):
        for name, job in jobs.items():
            began = time.perf_counter()
            job()
            seen[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seen.items()}


def output(n: int, labels: int, link: Link, rng: np.random.Generator) -> LabelledOutput:
    truth = rng.integers(labels, size=n)
    logits = rng.normal(size=(n, labels))
    logits[np.arange(n), truth] += 3
    made = Output.from_logits(
        logits,
        link=link,
        embedding=rng.normal(size=(n, DIMENSIONS)) + truth[:, None] % 10,
        mc_logits=logits[:, None] + rng.normal(size=(n, PASSES, labels)) if link == "softmax" else None,
    )
    return LabelledOutput.of_classes(made, truth)


def score_jobs(labels: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Each score of METHODS 1.1 to 1.3, and the mixes, on a batch of 64."""
    jobs: dict[str, Callable[[], object]] = {}
    links: dict[str, Link] = {"softmax": "softmax", "sigmoid": "sigmoid"}
    for name, make in SCORES.items():
        link = links[ONLY_FOR.get(name, "softmax")]
        fitted: Score = make(**SETTINGS.get(name, {})).fit(output(FITTED, 10, link, rng), np.ones(FITTED))
        batch = output(ROWS, labels, link, rng).output
        jobs[name] = partial(fitted.of, batch)
    reference = {"mahalanobis": rng.random(FITTED), "softmax_response": rng.random(FITTED)}
    mixed = {name: values[:ROWS] for name, values in reference.items()}
    right = (rng.random(FITTED) < 0.8).astype(float)
    for name, settings in {"hybrid": {}, "logistic": {"of": ("mahalanobis", "softmax_response")}}.items():
        combination = COMBINATIONS[name](**settings).fit(reference, right)
        jobs[name] = partial(combination.of, mixed)
    return jobs


def encoder() -> tuple[DropoutPasses, dict[str, torch.Tensor]]:
    """A 12-layer text encoder of ordinary size with random weights, and a batch of 8 texts."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(num_labels=4)).eval()
    features = {
        "input_ids": torch.randint(1000, 30000, (8, TOKENS)),
        "attention_mask": torch.ones(8, TOKENS, dtype=torch.long),
    }
    return DropoutPasses(model, lambda batch: model(**batch).logits), features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=30, help="of every score; a twentieth of it for the encoder")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    console, rng = Console(), np.random.default_rng(0)

    digits = Classifier.of_checkpoint(str(ROOT / "deploy/models/digits"))
    images = [rng.random((1, 8, 8), dtype=np.float32) for _ in range(ROWS)]
    (pixels,) = digits._features(images)
    with torch.inference_mode():
        passes, texts = encoder()
        models = times(
            {
                "served": lambda: digits.run(images, frozenset({"probabilities"})),
                "digits": lambda: digits._passes._forward(pixels),
                "digits, T = 20": lambda: digits._passes.run(pixels, PASSES),
            },
            options.repeats,
            "the quickstart's model",
        ) | times(
            {"encoder": lambda: passes._forward(texts), "encoder, T = 20": lambda: passes.run(texts, PASSES)},
            max(3, options.repeats // 10),
            "a 12-layer encoder",
        )

    columns = {labels: times(score_jobs(labels, rng), options.repeats, f"64 x {labels}") for labels in (10, 1154)}
    per_item = 1e6 / ROWS
    forward, of_encoder = models["served"] * per_item, models["encoder"] / 8 * 1e6
    table = Table(title=f"microseconds per item, batches of {ROWS}; {FITTED} fitted rows of {DIMENSIONS} dimensions")
    table.add_column("score")
    for name in ("64 x 10", "of the quickstart's model", "64 x 1,154", "of the encoder's forward pass"):
        table.add_column(name, justify="right")
    for name in columns[10]:
        small, large = columns[10][name] * per_item, columns[1154][name] * per_item
        table.add_row(name, f"{small:.2f}", f"{small / forward:.1%}", f"{large:.2f}", f"{large / of_encoder:.3%}")
    table.add_section()
    table.add_row("quickstart's model, pixels to probabilities", f"{forward:.1f}", "100%", "", "")
    table.add_row(f"forward pass: 12 layers, {TOKENS} tokens", "", "", f"{of_encoder:,.0f}", "100%")
    console.print(table)

    table = Table(title=f"dropout passes, T = {PASSES}, {options.threads} thread(s)")
    for column in ("model", "plain pass, ms", f"{PASSES} passes with dropout, ms", "in plain passes"):
        table.add_column(column, justify="left" if column == "model" else "right")
    rows = (
        ("quickstart, 64 images", models["digits"], models["digits, T = 20"]),
        (f"12 layers, 8 texts of {TOKENS} tokens", models["encoder"], models["encoder, T = 20"]),
    )
    for name, one, many in rows:
        table.add_row(name, f"{one * 1e3:,.1f}", f"{many * 1e3:,.1f}", f"{many / one:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
