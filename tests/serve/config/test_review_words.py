"""What reviewers read about a model is checked against its task when the configuration is read."""

import pytest
from pydantic import ValidationError

from demur.serve.config.file import Config

HOST = {
    "host": {"kind": "classifier", "checkpoint": "nowhere"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "threshold", "limit": 0.3},
}
MODELS = {
    "mood": {**HOST, "task": {"kind": "multiclass", "labels": ["good", "fair", "bad"]}},
    "cause": {**HOST, "task": {"kind": "multiclass", "labels": [f"cause {at}" for at in range(12)]}},
}


def configured(words):
    return Config.model_validate({"models": MODELS, "review": {"models": words}})


def test_words_of_a_model():
    told = configured({"mood": {"question": "How is it?", "labels": {"bad": {"title": "of no use", "key": "b"}}}})
    words = told.review.words_for("mood")
    assert (words.question, words.keys, words.titles) == ("How is it?", {"bad": "b"}, {"bad": "of no use"})
    assert not words.has_guide
    assert told.review.words_for("cause").labels == {}
    assert Config.model_validate(told.model_dump()) == told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"moods": {}}, "there is no model 'moods'; there are: mood, cause; did you mean `mood`"),
        ({"mood": {"labels": {"god": {}}}}, "'god' is no label of this model; did you mean `good`"),
        ({"mood": {"labels": {"bad": {"key": "b"}, "good": {"key": "b"}}}}, "the key 'b' is there twice"),
        ({"cause": {"labels": {"cause 1": {"key": "b"}}}}, "has 12 labels, and 10 at most can have a `key`"),
        ({"mood": {"labels": {"bad": {"key": "?"}}}}, "labels.bad.key"),
        ({"mood": {"question": "two\nlines"}}, "mood.question"),
        ({"mood": {"question": ""}}, "at least 1 character"),
    ],
)
def test_words_that_cannot_be(words, message):
    with pytest.raises(ValidationError, match=message.replace("?", r"\?")):
        configured(words)
