import pytest

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.trace import trace_features


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("Q? <think>Is it A? Wait, no. WAIT... maybe B?? waiting awaits</think> Answer: B?", (10, 2, 2)),
        ("wait-time, wait's; await waits wait_ 2wait", (6, 0, 2)),
        ("? ?? \uff1f\uff1f ?\uff1f?", (4, 4, 0)),
        ("<think>one</think> two? <think>three four</think>", (1, 0, 0)),  # the first block
        ("<think>a?\nb?\n</think>", (2, 2, 0)),
        ("<think>never closed? wait", (3, 1, 1)),  # then all of it counts
        ("</think> odd <think>wait</think>", (1, 0, 1)),
        ("<think>\n\n</think> the answer?", (0, 0, 0)),  # it did not think
        ("", (0, 0, 0)),
    ],
)
def test_counts(text, counts):
    features = trace_features(text)
    assert (features.tokens, features.questions, features.waits) == counts
    assert features.row().tolist() == list(counts)


@pytest.mark.parametrize("n_tokens", [0, 17])
def test_the_tokenizer_knows_better(n_tokens):
    assert trace_features("one two", n_tokens).tokens == n_tokens


@pytest.mark.parametrize(("text", "n_tokens"), [(None, None), (["a"], None), ("a", -1), ("a", 2.0), ("a", True)])
def test_what_is_refused(text, n_tokens):
    with pytest.raises(InvalidInput):
        trace_features(text, n_tokens)
