"""Probabilities of 14 findings, several of which may hold, by a DenseNet-121 on chest X-rays."""

from pathlib import Path

import numpy as np

from benchmarks.real.predictions import Predictions, Source, many_labels, numbered


def read(folder: Path) -> list[Predictions]:
    with np.load(folder / "chexnet.npz") as arrays:
        probabilities = arrays["probs"].astype(np.float64)
        return [
            Predictions(
                model="DenseNet-121",
                rows=many_labels(probabilities, arrays["labels"] == 1),
                groups=numbered(arrays["patient"]),
            )
        ]


SOURCE = Source(
    name="chest X-rays",
    folder="chexnet_probs",
    files=("chexnet.npz",),
    origin="jrzech/reproduce-chexnet @ a011a9a, labels of NIH ChestX-ray14 by arnoweng/CheXNet @ 3d45ee7",
    licence="predictions: BSD-3-Clause; labels: none stated",
    group="patient",
    treatment="as stored",
    read=read,
)
