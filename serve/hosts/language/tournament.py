"""A new input rated by comparing it with inputs whose ratings are known: a probability from bare verdicts (TOUR)."""

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.contract.engine import CannotGive, Engine, EngineFailed
from demur.serve.contract.inputs import ModelInput
from demur.serve.hosts.language.anchors import Anchors
from demur.serve.hosts.language.pair import PairJudge, Side
from demur.serve.hosts.outages import EndpointAway
from demur.uncertainty.generation import Generation, Replies, Usage, as_column
from demur.uncertainty.output import Output
from demur.uncertainty.tournament import K, expected_score, positive_probability


@dataclass(frozen=True, kw_only=True)
class TournamentRating:
    """What came of the matches of one input."""

    rating: float
    probability: float
    """Of the positive label: the chance of beating an input at the cut."""

    said: tuple[Side | None, ...]
    """The side that each verdict chose, in turn; None where there was none."""

    usage: Usage
    left_out: frozenset[str]
    elsewhere: Mapping[str, int]

    @property
    def why_unreadable(self) -> str | None:
        """What stands against it where fewer than half of the matches had a verdict."""
        verdicts = sum(side is not None for side in self.said)
        if 2 * verdicts >= len(self.said):
            return None
        return f"only {verdicts} of {len(self.said)} comparisons gave a verdict"


class Tournament:
    """Rates inputs of a binary task against anchors that do not move. Takes many inputs at a time."""

    def __init__(self, judge: PairJudge, anchors: Anchors, *, rounds: int) -> None:
        self._judge = judge
        self._anchors = anchors
        self._rounds = rounds

    @classmethod
    def of(cls, model: ModelConfig, engine: Engine) -> "Tournament | None":
        """Return the tournament that is configured; None where none is. Raises `BadRatings`."""
        if model.host.rated_by is None:
            return None
        settings = model.host.rated_by
        return cls(PairJudge(model, engine), Anchors.of(settings), rounds=settings.rounds)

    async def rate(self, text: str, *, without: frozenset[str] = frozenset()) -> TournamentRating:
        """Let it meet the anchors nearest to its present rating, one after the other, none twice and never its equal.

        It starts at the cut and moves by K (score - expected) after each verdict; without one it stays. Which of the
        two is shown first comes from a coin whose seed is the text, so that the same text meets the same fate. Raises
        `EngineFailed` where a comparison got no reply.
        """
        anchors = self._anchors
        free = np.array([other != text for other in anchors.texts])
        first = np.random.default_rng(_seed(text)).random(self._rounds) < 0.5
        rating, said, usage = anchors.start, list[Side | None](), Usage()
        left_out, elsewhere = frozenset[str](), Counter[str]()
        for shown_first in first.tolist():
            met = int(np.where(free, np.abs(anchors.ratings - rating), np.inf).argmin())
            free[met] = False
            pair = (text, anchors.texts[met]) if shown_first else (anchors.texts[met], text)
            compared = await self._judge.compare(*pair, without=without)
            said.append(compared.side)
            usage += compared.usage
            left_out |= compared.left_out
            elsewhere.update([compared.elsewhere] if compared.elsewhere else [])
            if compared.side is not None:
                won = (compared.side == "A") == shown_first
                rating += K * (won - expected_score(rating, anchors.ratings[met]))
        probability = float(positive_probability([rating], reference=anchors.start)[0])
        return TournamentRating(
            rating=rating,
            probability=probability,
            said=tuple(said),
            usage=usage,
            left_out=left_out,
            elsewhere=dict(elsewhere),
        )

    async def run(self, inputs: Sequence[ModelInput], *, without: frozenset[str] = frozenset()) -> Output:
        """Rate a batch, all rows at the same time: probabilities [n, 2], and in the replies what was said and spent.

        The numbers of a row are NaN, and it is unreadable, where fewer than half of its matches had a verdict or the
        engine failed on it.
        """
        rows = await asyncio.gather(*(self._row(text, without) for text in inputs))
        positive = np.array([probability for probability, _, _ in rows])
        probabilities = np.column_stack([1 - positive, positive])
        unreadable = np.empty(len(rows), dtype=object)
        unreadable[:] = [why for _, _, why in rows]
        return Output(
            logits=np.log(probabilities),  # the rating is finite, so that neither is 0
            probabilities=probabilities,
            replies=as_column([replies for _, replies, _ in rows]),
            unreadable=unreadable if any(why is not None for _, _, why in rows) else None,
        )

    async def _row(self, text: ModelInput, without: frozenset[str]) -> tuple[float, Replies, str | None]:
        assert isinstance(text, str)
        try:
            rated = await self.rate(text, without=without)
        except EndpointAway as away:
            nothing = Replies(first=Generation(text=""), said=None, outage=away.outage)
            return math.nan, nothing, f"the model could not be asked: {away}"
        except (EngineFailed, CannotGive) as error:
            return math.nan, Replies(first=Generation(text=""), said=None), f"the model gave no reply: {error}"
        why = rated.why_unreadable
        replies = Replies(
            first=Generation(
                text=" ".join(side or "?" for side in rated.said),
                prompt_tokens=rated.usage.prompt_tokens,
                completion_tokens=rated.usage.completion_tokens,
            ),
            said=None if why else int(rated.probability > 0.5),
            options=(0, 1),
            usage=rated.usage,
            left_out=rated.left_out,
            elsewhere=rated.elsewhere,
        )
        return math.nan if why else rated.probability, replies, why


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
