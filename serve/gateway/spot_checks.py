"""How likely it is that a person looks at a prediction that was not held (METHODS 9.1)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import isnan, sqrt

import numpy as np

from demur.audit.metrics.sampling import allocate
from demur.serve.config.file import ModelConfig
from demur.serve.config.spot_checks import SpotCheckConfig
from demur.traffic.database import Database
from demur.traffic.recent import recent_unheld

LATEST = 10_000
"""So many of the latest records of a model say what its traffic is like."""

FEWEST = 100
"""With fewer of a stratum among them, all of it is drawn alike."""

Stratum = str | None
"""A group with a rate of its own, or None: all the others."""


class SpotChecks:
    """The probability of each draw. It hangs on what was on record before, and never on the outcome."""

    def __init__(self, models: Mapping[str, ModelConfig]) -> None:
        self._settings = {name: model.spot_checks for name, model in models.items()}
        self._scales: Mapping[tuple[str, Stratum], float] = {}

    @property
    def by_traffic(self) -> list[str]:
        """Names of the models of which recent traffic must be known."""
        return [name for name, one in self._settings.items() if one and one.allocate == "uncertainty"]

    def probability(self, model: str, group: str | None, confidence: float | None) -> float:
        """0 where nothing is checked. An unknown confidence counts as the least sure, 1/2."""
        settings = self._settings[model]
        if settings is None:
            return 0.0
        stratum = settings.stratum(group)
        scale = self._scales.get((model, stratum))
        if settings.allocate == "uniform" or scale is None:
            return settings.rate_in(stratum)
        doubt = spread(confidence)
        return min(1.0, max(settings.least, scale * doubt)) if doubt > 0 else settings.least

    def probabilities(
        self, model: str, groups: Sequence[str | None], confidences: Sequence[float | None]
    ) -> list[float]:
        """[n], the probability of each row."""
        settings = self._settings[model]
        if settings is None:
            return [0.0] * len(groups)
        return [self.probability(model, group, known) for group, known in zip(groups, confidences, strict=True)]

    def look(self, database: Database) -> None:
        """Learn from the latest records how much can be drawn of each degree of doubt, so that each stratum would have
        come to its rate. Where the scale is already known it is kept until all are known anew."""
        scales = {}
        for model in self.by_traffic:
            settings = self._settings[model]
            assert settings is not None
            with database.transaction() as connection:
                latest = recent_unheld(connection, model, latest=LATEST)
            confidences: dict[Stratum, list[float | None]] = defaultdict(list)
            for group, confidence in latest:
                confidences[settings.stratum(group)].append(confidence)
            for stratum, known in confidences.items():
                if len(known) >= FEWEST:
                    scales[model, stratum] = scale_of(settings, stratum, known)
        self._scales = scales


def scale_of(settings: SpotCheckConfig, stratum: Stratum, confidences: list[float | None]) -> float:
    """The smallest s for which min(1, max(floor, s sqrt(c (1 - c)))) has the stratum's rate as its mean; inf where no
    s is enough, as most are certain."""
    rows = np.array([0.5 if _unknown(one) else one for one in confidences], dtype=np.float64)
    budget = settings.rate_in(stratum) * len(rows)
    return allocate(rows, budget, settings.least).scale


def spread(confidence: float | None) -> float:
    """sqrt(c (1 - c)): how far a prediction of this confidence is from being surely right or surely wrong."""
    return 0.5 if confidence is None or isnan(confidence) else sqrt(max(0.0, confidence * (1 - confidence)))


def _unknown(confidence: float | None) -> bool:
    return confidence is None or isnan(confidence)
