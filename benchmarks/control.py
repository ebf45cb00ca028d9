"""What a control costs a request: microseconds from the artifact's decision to the final one, of each kind.

Without Ray, a model or a database: a request otherwise takes milliseconds. The kinds take turns, so that what else the
machine does falls on all alike; the quartiles show how much that is.
"""

import argparse
import statistics
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from uuid_utils.compat import uuid7

from demur.policies.decision import Action
from demur.serve.config.file import ModelConfig
from demur.serve.gateway.controls import Controls, ModelControl
from demur.serve.gateway.final_action import FinalAction, in_the_room, overruled
from demur.serve.gateway.safeguards import Safeguards

REQUESTS = 10_000
NO_ALARM = Safeguards()
KINDS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "review_price": {"kind": "review_price", "capacity": 0.1},
    "review_rate": {"kind": "review_rate", "target": 0.1},
    "tracked_limit": {"kind": "tracked_limit", "max_risk": 0.02},
}


def control_of(told: dict[str, Any] | None) -> ModelControl | None:
    model = ModelConfig.model_validate(
        {
            "task": {"kind": "binary", "labels": ["no", "yes"]},
            "host": {"kind": "classifier", "checkpoint": "none"},
            "scores": ["entropy"],
            "confidence": {"score": "entropy"},
            "policy": {"kind": "threshold", "limit": 0.5},
            "spot_check": 0.02,
            "control": told,
        }
    )
    return Controls({"toy": model}, clock=lambda: datetime.now(UTC), new_id=uuid7).of("toy")


def microseconds(control: ModelControl | None, confidences: list[float], decided: list[FinalAction]) -> float:
    """Of one request, on average over all of them."""
    began = time.perf_counter()
    for confidence, verdict in zip(confidences, decided, strict=True):
        in_the_room(overruled(verdict, "toy", confidence, "toy-1", control=control, safeguards=NO_ALARM), "")
    return (time.perf_counter() - began) / len(confidences) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="how often each kind has its turn")
    rounds = parser.parse_args().rounds
    confidences = (1 / (1 + np.exp(-np.random.default_rng(0).normal(2.2, 1.6, REQUESTS)))).tolist()
    decided = [
        FinalAction(
            Action.ANSWER if confidence >= 0.5 else Action.REVIEW,
            f"confidence {confidence:.2f}, the limit in the configuration",
        )
        for confidence in confidences
    ]
    controls = {kind: control_of(told) for kind, told in KINDS.items()}
    spent: dict[str, list[float]] = {kind: [] for kind in KINDS}
    console = Console()
    for _ in track(range(rounds), description=f"{REQUESTS:,} requests of each kind", console=console):
        for kind, control in controls.items():
            spent[kind].append(microseconds(control, confidences, decided))
    table = Table("control", "µs a request", "quartiles", title="what a control costs")
    for kind, times in spent.items():
        low, middle, high = statistics.quantiles(times, n=4)
        table.add_row(kind, f"{middle:.2f}", f"{low:.2f} to {high:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
