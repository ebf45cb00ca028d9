"""Replies of a language model that nobody asked: drawn at random, with everything in them."""

import numpy as np

from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import LabelledOutput, Output


def generation(logprobs, *, top=None, reasoning="Is it? Wait. Yes.", answer_start=0, text="yes"):
    """A reply with one token for each log-probability; those before `answer_start` are of the reasoning."""
    logprobs = np.array(logprobs, dtype=np.float64)
    return Generation(
        text=text,
        reasoning=reasoning,
        tokens=tuple(f"t{at}" for at in range(len(logprobs))),
        logprobs=logprobs,
        top_logprobs=tuple(np.array([value, value - 2]) for value in np.minimum(logprobs, -0.2))
        if top is None
        else tuple(np.array(row) for row in top),
        answer_start=answer_start,
    )


def drawn_replies(rng, said, options, *, samples=6):
    """[n], replies that were read as `said`; samples say it more often where the answer is surer."""
    rows = []
    for one in said:
        sure = rng.random()
        words = ["Wait?"] * int(rng.integers(1, 4)) + ["so"] * int(rng.integers(1, 9))
        others = list(options) if not isinstance(one, tuple) else [tuple(options[:k]) for k in range(len(options))]
        picked = [one if rng.random() < sure else others[rng.integers(len(others))] for _ in range(samples)]
        labels = one if isinstance(one, tuple) else (one,)
        rows.append(
            Replies(
                first=generation(
                    np.log(rng.uniform(sure, 1, size=7).clip(0.05)), reasoning=" ".join(words), answer_start=3
                ),
                said=one,
                spans={label: (3, 5 + at % 2) for at, label in enumerate(labels)},
                options=tuple(options),
                samples=tuple(None if rng.random() < 0.05 else reading for reading in picked),
                stated={label: float(rng.random()) for label in options},
                rating=float(rng.random()),
            )
        )
    return as_column(rows)


def of_replies(rows, *, width, unreadable=None):
    """An output as `probabilities: reply` makes it: 1 for what was read, 0 elsewhere."""
    probabilities = np.zeros((len(rows), width))
    for at, replies in enumerate(rows):
        said = replies.said if isinstance(replies.said, tuple) else (replies.said,)
        probabilities[at, [label for label in said if isinstance(label, int)]] = 1
    return Output(
        logits=np.log(np.maximum(probabilities, 1e-12)),
        probabilities=probabilities,
        replies=as_column(list(rows)),
        unreadable=None if unreadable is None else np.array(unreadable, dtype=object),
    )


def asked(rng, n=240, width=3, *, right=0.75):
    """Labelled rows of a task with one right label, of which a share is right."""
    truth = rng.integers(width, size=n)
    said = np.where(rng.random(n) < right, truth, (truth + 1) % width)
    rows = drawn_replies(rng, [int(one) for one in said], range(width))
    return LabelledOutput.of_classes(of_replies(rows, width=width), truth)
