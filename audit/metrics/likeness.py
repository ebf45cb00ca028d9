"""How right a guess was."""

from traffic.record import Answer


def likeness(guess: Answer | None, truth: Answer) -> float:
    """How right a guess was: 1 or 0, of label sets their Jaccard similarity."""
    if isinstance(guess, list) and isinstance(truth, list):
        either = set(guess) | set(truth)
        return len(set(guess) & set(truth)) / len(either) if either else 1.0
    return float(guess == truth)
