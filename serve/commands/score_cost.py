"""What each configured score costs beyond the model's first answer, in numbers and in words."""

from dataclasses import dataclass

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.language import LanguageHost
from demur.serve.config.language_recipe import own_probabilities
from demur.uncertainty.combination import CombinationRecipe
from demur.uncertainty.output import Need
from demur.uncertainty.score_cascade import Cascade
from demur.uncertainty.scores import ScoreRecipe


@dataclass(frozen=True, kw_only=True)
class ScoreCost:
    """What one prediction costs beyond the first reply or pass, which every prediction has."""

    calls: int
    """Further replies or passes, at most. Sampled replies to one prompt share the work on it."""

    tokens: int
    """Tokens that are written for it, at most; reading prompts is not counted."""

    words: str
    """`10 sampled replies`, for people."""


def costs(model: ModelConfig) -> dict[str, ScoreCost]:
    """Return the cost of every score and combination, by name. What two of them need is made once, and paid once."""
    recipe = model.recipe
    found = {name: _of_score(model, score) for name, score in recipe.scores.items()}
    for name, mix in recipe.combinations.items():
        found[name] = _of_mix(mix, found)
    return found


def _of_score(model: ModelConfig, score: ScoreRecipe) -> ScoreCost:
    if not model.host.is_language:
        if "mc_probabilities" in score.needs:
            passes = getattr(model.host, "mc_passes", 0)
            return ScoreCost(calls=passes, tokens=0, words=f"{passes} more passes with dropout left on")
        return ScoreCost(calls=0, tokens=0, words="nothing beyond the first pass")
    return _of_needs(model, score.needs, self_reported=bool(getattr(score, "self_reported", False)))


def _of_needs(model: ModelConfig, needs: frozenset[Need], *, self_reported: bool) -> ScoreCost:
    assert isinstance(model.host, LanguageHost)
    if rated := model.host.rated_by:
        return ScoreCost(calls=0, tokens=0, words=f"nothing beyond the {rated.rounds} comparisons of each prediction")
    written, marked = model.host.max_tokens, " (self-reported)" if self_reported else ""
    by = model.prompt.probabilities
    if "samples" in needs or (needs == {"probabilities"} and by == "samples"):
        most, least = model.samples.max, model.samples.min
        few = f"{least} to {most}" if least is not None and least < most else f"{most}"
        return ScoreCost(calls=most, tokens=most * written, words=f"{few} sampled replies")
    if "rating" in needs or ("stated" in needs and not _stated_in_the_reply(model)):
        return ScoreCost(calls=1, tokens=written, words=f"1 more reply{marked}")
    if needs == {"probabilities"} and own_probabilities(model):
        return ScoreCost(calls=1, tokens=0, words="the log-probabilities of the labels after the prompt")
    if "top_logprobs" in needs:
        return ScoreCost(calls=0, tokens=0, words="alternatives of each token of the first reply")
    if "logprobs" in needs:
        return ScoreCost(calls=0, tokens=0, words="log-probabilities of the first reply")
    return ScoreCost(calls=0, tokens=0, words=f"nothing beyond the first reply{marked}")


def _stated_in_the_reply(model: ModelConfig) -> bool:
    return model.task.kind == "multilabel" and model.prompt.reply == "json"


def _of_mix(mix: CombinationRecipe, found: dict[str, ScoreCost]) -> ScoreCost:
    parts = [found[source] for source in mix.sources]
    if isinstance(mix, Cascade):
        share = f"a share of {mix.ask_share:g} of the rows" if mix.ask_share is not None else "rows above its limit"
        words = f"that of {mix.first}, and of {mix.then} for {share}"
    else:
        words = f"that of {' and '.join(dict.fromkeys(mix.sources))}"
    return ScoreCost(calls=max(part.calls for part in parts), tokens=max(part.tokens for part in parts), words=words)
