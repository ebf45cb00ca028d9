"""Why a score of a language model is unknown in every row: what its replies lacked, and what to set because of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from demur.policies.selector_recipe import SelectorRecipe
from demur.serve.config.file import ModelConfig
from demur.uncertainty.generation import Replies
from demur.uncertainty.output import Need, Output

LACKS: dict[Need, Callable[[Replies], bool]] = {
    "logprobs": lambda replies: replies.first.logprobs is None,
    "top_logprobs": lambda replies: replies.first.top_logprobs is None,
    "samples": lambda replies: all(said is None for said in replies.samples),
    "stated": lambda replies: replies.stated is None,
    "rating": lambda replies: replies.rating is None,
}

LACKED: dict[Need, str] = {
    "logprobs": "log-probabilities",
    "top_logprobs": "alternatives of its tokens",
    "samples": "samples that could be read",
    "stated": "confidences that could be read",
    "rating": "a rating that could be read",
}


def missing_parts(name: str, model: ModelConfig, recipe: SelectorRecipe, output: Output) -> Iterator[str]:
    """One sentence for each thing that some score of a model reads and that none of its replies had."""
    if output.replies is None:
        return
    replies = [one for one in output.replies.tolist() if one is not None]
    lacked = [need for need, lacks in LACKS.items() if replies and all(lacks(one) for one in replies)]
    if "logprobs" in lacked and "top_logprobs" in lacked:
        lacked.remove("top_logprobs")  # there are no alternatives without
    for need in lacked:
        wanted = {need, "top_logprobs"} if need == "logprobs" else {need}
        if readers := [score for score, one in recipe.scores.items() if wanted & one.needs]:
            yield (
                f"None of the {len(replies)} replies of {model.host.model_name} had {LACKED[need]}, which"
                f" {' and '.join(readers)} {'reads' if len(readers) == 1 else 'read'}"
                f"{_way_out(name, model, need, replies)}"
            )


def _way_out(name: str, model: ModelConfig, need: Need, replies: Sequence[Replies]) -> str:
    if need in ("logprobs", "top_logprobs"):
        told = Counter(one.first.no_logprobs for one in replies if one.first.no_logprobs)
        if told:
            ((cause, _),) = told.most_common(1)
            return f": {cause}"  # which ends with what to do
        instead = "take a score that does without, such as semantic_entropy, sample_disagreement or rating"
        if model.host.is_endpoint:
            return f"; if the endpoint gives none, set models.{name}.host.gives_logprobs: false and {instead}"
        return f"; {instead}"
    if need == "samples":
        return "; see in the first replies what the model writes, and change the prompt, or take another score"
    return "; change the prompt that asks for it, or take another score"
