"""Write the three parts of scikit-learn's scanned digits as labelled files, always the same rows in each.

    python deploy/models/digits/parts.py [FOLDER]       (var/digits by default)

train.jsonl is what the model learns from, calibration.jsonl what `demur fit` uses, test.jsonl what nobody has seen
and `demur demo` replays. Files that are there already are left alone.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SIZES = {"train": 897, "calibration": 500, "test": 400}
SEED = 0


def parts() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images [n, 8, 8] in [0, 1] and labels [n] of each part; every class in the same proportion everywhere."""
    digits = load_digits()
    images, labels = digits.images / 16, digits.target
    rest = np.arange(len(labels))
    found = {}
    for name, size in list(SIZES.items())[:-1]:
        taken, rest = train_test_split(rest, train_size=size, random_state=SEED, stratify=labels[rest])
        found[name] = images[taken], labels[taken]
    found["test"] = images[rest], labels[rest]
    assert {name: len(y) for name, (_, y) in found.items()} == SIZES
    return found


def write(folder: Path) -> None:
    wanted = {name: folder / f"{name}.jsonl" for name in SIZES}
    if all(path.exists() for path in wanted.values()):
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, (images, labels) in parts().items():
        lines = [
            json.dumps({"input": image.tolist(), "label": str(label)})
            for image, label in zip(images, labels, strict=True)
        ]
        unfinished = folder / f".{name}.{os.getpid()}"
        unfinished.write_text("\n".join(lines) + "\n", encoding="utf-8")
        unfinished.replace(wanted[name])
    print(f"wrote {', '.join(f'{n} {name}' for name, n in SIZES.items())} digits to {folder}")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("var/digits"))
