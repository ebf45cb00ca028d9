"""How right a guess was."""

from demur.traffic.record import Answer


def likeness(guess: Answer | None, truth: Answer, *, exact: bool = False) -> float:
    """How right a guess was: 1 or 0, of label sets their Jaccard similarity, unless it is to be `exact`."""
    if isinstance(guess, list) and isinstance(truth, list):
        either, both = set(guess) | set(truth), set(guess) & set(truth)
        return float(either == both) if exact or not either else len(both) / len(either)
    return float(guess == truth)
