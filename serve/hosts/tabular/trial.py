"""A file of a model, tried in a process of its own: the libraries that read it can crash on one that is damaged."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

from demur.serve.hosts.kind import BadModel

Library = Literal["xgboost", "lightgbm"]

LONGEST_SECONDS = 300.0
"""For the largest of files; one that takes longer is taken to lead in circles."""

PROBES = (0.0, 1.0, 1000.0, -1e30, 1e30, float("nan"))
"""Values of whole rows that are predicted, so that trees are walked."""

_tried: set[tuple[str, str]] = set()
"""Library and hash of what went well in this process."""


def try_file(library: Library, file: Path) -> None:
    """Raise `BadModel` unless the library reads the file and predicts with it."""
    tried = library, hashlib.sha256(file.read_bytes()).hexdigest()
    if tried in _tried:
        return
    command = (sys.executable, "-P", "-m", __name__, library, str(file.absolute()))
    paths = os.pathsep.join(path for path in sys.path if path)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_SECONDS,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise BadModel(f"host.file: {library} does not come to an end with {file}; {_SAVE[library]}") from None
    if done.returncode:
        why = "it stopped while it read the file" if done.returncode < 0 else _last(done.stderr)
        raise BadModel(f"host.file: {library} cannot read {file} ({why}); {_SAVE[library]}")
    _tried.add(tried)


_SAVE: dict[Library, str] = {
    "xgboost": "save the model again with `model.save_model('model.json')` or `'model.ubj'`",
    "lightgbm": "save the model again with `model.booster_.save_model('model.txt')`",
}


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it does not say why"


def _read(library: str, file: str) -> None:
    """Load a file and predict some rows with it."""
    import numpy as np

    if library == "xgboost":
        import xgboost

        booster = xgboost.Booster(model_file=file)
        rows = np.tile(np.array(PROBES)[:, None], (1, booster.num_features()))
        booster.inplace_predict(rows, validate_features=False)
        return
    import lightgbm

    model = lightgbm.Booster(model_file=file)
    model.predict(np.tile(np.array(PROBES)[:, None], (1, model.num_feature())), num_threads=1)


if __name__ == "__main__":
    try:
        _read(sys.argv[1], sys.argv[2])
    except Exception as error:  # whatever the library says of it
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        print(lines[0] if lines else type(error).__name__, file=sys.stderr)
        sys.exit(1)
