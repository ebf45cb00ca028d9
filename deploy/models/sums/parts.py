"""Write held-out exercises as labelled files, always the same ones, for `demur fit`, `demur demo` and `demur rank`.

    python -m deploy.models.sums.parts [FOLDER]       (var/sums by default)

FOLDER/TASK/calibration.jsonl and test.jsonl share no prompt with each other, nor with what the model was taught; the
group of a row is its level. FOLDER/larger/items.jsonl has single sums for a tournament: which are above 100?
Files that are there already are left alone.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from deploy.models.sums.exercises import LETTERS, LEVELS, TASKS, Exercise, exercises, terms, written

SIZES = {"calibration": 1000, "test": 1000}
"""Rows of each part, as many from each level; there are fewer of a level that has not enough prompts."""

SEED = 2
ITEMS = 150
CUT = 100


def parts(task: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of each part of a task, the levels mixed."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in SIZES}
    rng, seen = random.Random(SEED), set[str]()
    for level in LEVELS:
        wanted = sum(SIZES.values()) // len(LEVELS)
        drawn = [e for e in exercises(task, level, wanted, seed=SEED) if e.prompt not in seen]
        seen.update(exercise.prompt for exercise in drawn)  # 4 + 3 may also be drawn at level 2
        for i, exercise in enumerate(drawn):  # where there are too few for both, each has its share
            name = "calibration" if i * sum(SIZES.values()) < len(drawn) * SIZES["calibration"] else "test"
            found[name].append({"input": exercise.input, "label": _label(exercise), "group": f"level {level}"})
    for rows in found.values():
        rng.shuffle(rows)
    return found


def _label(exercise: Exercise) -> str | list[str]:
    """As demur takes it: of a choice the letter that stands where the right option does."""
    if exercise.task != "choice":
        return exercise.label
    return LETTERS[exercise.input["options"].index(exercise.label)]


def items() -> list[dict[str, Any]]:
    """Sums of two numbers of two digits, no value twice; "yes" for those above 100."""
    rng = random.Random(SEED)
    found: dict[int, str] = {}
    while len(found) < ITEMS:  # of 179 values, 20 to 198
        numbers = terms(rng, 4)
        found.setdefault(sum(numbers), written(numbers))
    return [{"input": text, "label": "yes" if value > CUT else "no"} for value, text in found.items()]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    unfinished.replace(path)


def write(folder: Path) -> None:
    wanted = [folder / task / f"{name}.jsonl" for task in TASKS for name in SIZES]
    if all(path.exists() for path in [*wanted, folder / "larger" / "items.jsonl"]):
        return
    for task in TASKS:
        for name, rows in parts(task).items():
            _write(folder / task / f"{name}.jsonl", rows)
    _write(folder / "larger" / "items.jsonl", items())
    print(f"wrote exercises for {', '.join(TASKS)} to {folder}")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("var/sums"))
