from dataclasses import replace

import numpy as np
import pytest

from demur.uncertainty import options, tokens
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.class_probability import entropy
from demur.uncertainty.combination import Combined, Hybrid, Logistic
from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.readings import on_offer, sample_probabilities, shares
from demur.uncertainty.sampled_scores import OF_PASSES, OverSamples, same_text
from demur.uncertainty.scores import REPLY_SCORES, SCORES, learns
from demur.uncertainty.token_scores import TOKEN_SCORES, TokenEntropy
from demur.uncertainty.trace_scores import Trace, TraceTokens
from tests.uncertainty.written import asked, generation, of_replies

FORMULAS = {
    "avg_neg_logprob": tokens.avg_neg_logprob,
    "max_neg_logprob": tokens.max_neg_logprob,
    "perplexity": tokens.perplexity,
    "improbability": tokens.improbability,
    "g_nll": tokens.greedy_neg_loglikelihood,
    "avg_token_prob": tokens.avg_token_prob,
    "sequence_confidence": lambda logprobs: 1 - tokens.sequence_confidence(logprobs),
}
LOGPROBS = np.log([0.1, 0.5, 0.9, 0.8, 0.25])


def replies(**changes):
    settings = {
        "first": generation(LOGPROBS, answer_start=2),
        "said": 1,
        "spans": {1: (2, 4)},
        "options": (0, 1),
        "samples": (1, 1, 0, None),
        "stated": {0: 0.2, 1: 0.7},
        "rating": 0.6,
    }
    return Replies(**{**settings, **changes})


def of(score, *rows, width=2, exclusive=True):
    """What a score says of these rows, once it was fitted in a task of this kind."""
    output = of_replies(rows, width=width)
    labelled = LabelledOutput(output=output, truth=output.probabilities == 1, exclusive=exclusive)
    return score.fit(labelled, np.ones(len(rows))).of(output)


@pytest.mark.parametrize("name", FORMULAS)
def test_token_scores_are_their_formulas_over_the_answer_without_the_reasoning(name):
    assert of(SCORES[name](), replies()) == pytest.approx([FORMULAS[name](LOGPROBS[2:])], rel=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_of_several_labels_each_counts_by_its_own_tokens(name):
    row = replies(said=(0, 1), spans={0: (2, 3), 1: (3, 5)})
    expected = np.mean([FORMULAS[name](LOGPROBS[2:3]), FORMULAS[name](LOGPROBS[3:5])])
    assert of(SCORES[name](), row, exclusive=False) == pytest.approx([expected], rel=1e-12)
    whole = FORMULAS[name](LOGPROBS[2:])
    assert of(SCORES[name](per="answer"), row, exclusive=False) == pytest.approx([whole], rel=1e-12)


def test_of_one_label_its_own_tokens_count_where_that_is_asked_for():
    assert of(SCORES["g_nll"](per="label"), replies()) == pytest.approx([-np.log(0.9 * 0.8)])


@pytest.mark.parametrize("name", TOKEN_SCORES)
def test_a_prediction_without_a_label_has_no_score_and_not_a_sure_one(name):
    rows = [replies(said=(), spans={}), replies(said=(1,))]
    assert np.isnan(of(SCORES[name](), *rows, exclusive=False)).tolist() == [True, False]


def test_token_entropy_over_what_the_engine_told():
    top = [np.log([0.5]), np.log([0.5]), np.log([0.5, 0.25]), np.log([0.8, 0.1]), np.log([1.0])]
    row = replies(first=generation(LOGPROBS, top=top, answer_start=2))
    each = [entropy([[0.5, 0.25, 0.25]])[0], entropy([[0.8, 0.1, 0.1]])[0], 0.0]
    assert of(TokenEntropy(), row) == pytest.approx([sum(each)])
    assert of(TokenEntropy(reduce="mean"), row) == pytest.approx([np.mean(each)])
    assert of(TokenEntropy(reduce="max"), row) == pytest.approx([max(each)])
    assert of(TokenEntropy(per="label"), row) == pytest.approx([sum(each[:2])])
    shared = entropy([[2 / 3, 1 / 3]])[0] + entropy([[8 / 9, 1 / 9]])[0]
    assert of(TokenEntropy(residual="renormalize"), row) == pytest.approx([shared])


SILENT = Generation(text="yes")  # an engine that tells no tokens


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        *((name, {"first": SILENT}) for name in TOKEN_SCORES),
        *((name, {"first": generation([-0.1, np.nan])}) for name in FORMULAS),
        *((name, {"first": generation([-0.1, 0.5])}) for name in FORMULAS),  # no log-probability
        *((name, {"first": generation([-0.1, -0.2], answer_start=2)}) for name in TOKEN_SCORES),  # an empty answer
        ("token_entropy", {"first": generation([-0.1], top=[[0.0, 0.0]])}),
        *((name, {"samples": ()}) for name in ("self_consistency", "semantic_entropy", "sample_disagreement")),
        *((name, {"samples": (None, None)}) for name in ("self_consistency", "semantic_entropy", "eigv_laplacian")),
        ("eigv_laplacian", {"samples": ()}),
        ("sample_disagreement", {"said": None}),
        *(("self_verbalised", {"stated": stated}) for stated in (None, {}, {0: 0.2})),
        ("self_verbalised", {"said": None}),
        ("rating", {"rating": None}),
        *((name, {"first": SILENT}) for name in ("trace_tokens", "trace_questions", "trace_waits")),
    ],
)
def test_what_is_missing_is_not_a_number_and_never_0_and_hurts_no_neighbour(name, missing):
    score = SCORES[name]()
    alone = of(score, replies())[0]
    values = of(score, replies(), replies(**missing), replies())
    assert np.isnan(values[1])
    assert values[[0, 2]].tolist() == [alone, alone]
    assert np.isfinite(alone)


@pytest.mark.parametrize("name", REPLY_SCORES)
def test_a_model_that_writes_nothing_has_none_of_them(name):
    rows = LabelledOutput.of_classes(Output.from_logits(np.zeros((2, 2))), np.array([0, 1]))
    with pytest.raises(InvalidInput, match="reads the replies of a language model"):
        SCORES[name]().fit(rows, np.array([0.0, 1.0])).of(rows.output)


@pytest.mark.parametrize("name", REPLY_SCORES)
def test_each_is_a_number_for_each_row_whatever_stands_beside_it(name):
    rows = asked(np.random.default_rng(4), n=40, width=2)
    quality = (np.arange(40) % 3 > 0).astype(float)
    fitted = SCORES[name]().fit(rows, quality)
    together = fitted.of(rows.output)
    assert together.dtype == np.float64
    assert together.shape == (40,)
    assert np.isfinite(together).all()
    assert [fitted.of(rows.output.rows(slice(at, at + 1)))[0] for at in range(40)] == together.tolist()
    assert fitted.needs == SCORES[name]().needs
    assert learns(SCORES[name]()) == (name == "trace")


def test_self_consistency_counts_a_reply_that_nobody_could_read_for_neither_side():
    rows = [replies(samples=samples) for samples in ((1, 1, 1, 0), (0, 0), (1, 0, None, None), (1, None))]
    assert of(SCORES["self_consistency"](), *rows).tolist() == [0.25, 0.0, 0.75, 0.5]
    assert options.self_consistency(3, 4).uncertainty == 0.25


def test_semantic_entropy_is_over_the_options_of_the_row():
    row = replies(options=(0, 1, 2), samples=(2, 2, 1, None))
    assert of(SCORES["semantic_entropy"](), row, width=3) == pytest.approx([entropy([[0.5, 0.25, 0.25]])[0]])
    drop = SCORES["semantic_entropy"](unparsed="drop")
    assert of(drop, row, width=3) == pytest.approx([entropy([[2 / 3, 1 / 3]])[0]])
    normalized = SCORES["semantic_entropy"](unparsed="drop", normalized=True)
    assert of(normalized, row, width=3) == pytest.approx([entropy([[2 / 3, 1 / 3]])[0] / np.log(3)])


def test_where_anything_can_be_said_texts_that_mean_the_same_are_one_outcome():
    said = ("It is  42.", "it is 42", "43", None)
    row = replies(options=None, said="It is 42", samples=said)
    assert of(SCORES["semantic_entropy"](), row) == pytest.approx([entropy([[0.5, 0.25, 0.25]])[0]])
    normalized = SCORES["semantic_entropy"](normalized=True)
    assert of(normalized, row) == pytest.approx([entropy([[0.5, 0.25, 0.25]])[0] / np.log(4)])
    assert of(normalized, replies(options=None, said="a", samples=("a", "b", "c"))) == pytest.approx([1.0])
    assert of(normalized, replies(options=None, said="a", samples=("a",))).tolist() == [0.0]
    assert of(SCORES["sample_disagreement"](), row).tolist() == [0.5]
    assert same_text(3) == 3


def test_sampled_label_sets():
    one, same = replies(said=(0,), samples=((0,), (0,), (0,))), replies(said=(0,), samples=((0,), (1,), (0, 1)))
    eigv = SCORES["eigv_laplacian"]
    assert of(eigv(), one, exclusive=False) == pytest.approx([1.0])
    assert of(eigv(), same, exclusive=False)[0] > 1.5
    assert of(eigv(), replies(samples=((), ())), exclusive=False) == pytest.approx([1.0])
    unread = replies(samples=((0,), (0,), None, None))
    assert of(eigv(), unread, exclusive=False) == pytest.approx([2.0])
    assert of(eigv(unparsed="drop"), unread, exclusive=False) == pytest.approx([1.0])
    assert of(SCORES["semantic_entropy"](), same, exclusive=False) == pytest.approx([np.log(3)])
    assert of(SCORES["sample_disagreement"](), same, exclusive=False) == pytest.approx([2 / 3])


def test_samples_disagree_with_what_is_predicted_and_not_with_what_was_read():
    output = of_replies([replies(samples=(0, 0, 1, None))], width=2)
    assert SCORES["sample_disagreement"]().of(output).tolist() == [0.75]
    other = replace(output, probabilities=np.array([[0.8, 0.2]]))
    assert SCORES["sample_disagreement"]().of(other).tolist() == [0.5]
    assert SCORES["self_verbalised"]().of(other) == pytest.approx([0.8])


def test_what_the_model_says_of_itself():
    assert of(SCORES["self_verbalised"](), replies()) == pytest.approx([0.3])
    several = replies(said=(0, 1), stated={0: 0.2, 1: 0.8})
    assert of(SCORES["self_verbalised"](), several, exclusive=False) == pytest.approx([0.5])
    assert np.isnan(of(SCORES["self_verbalised"](), replies(said=(), stated={}), exclusive=False))
    assert of(SCORES["rating"](), replies()) == pytest.approx([0.4])
    assert [name for name in SCORES if getattr(SCORES[name](), "self_reported", False)] == ["self_verbalised", "rating"]


def test_signs_of_hesitation():
    row = replies(first=generation(LOGPROBS, reasoning="Is it? Wait, wait. No?? It is.", answer_start=3))
    for name, expected in (("trace_tokens", 3), ("trace_questions", 2), ("trace_waits", 2)):
        assert of(SCORES[name](), row).tolist() == [expected]
    assert of(TraceTokens(count="words"), row).tolist() == [7]


def test_tokens_are_never_taken_for_words():
    words_only = replies(first=Generation(text="yes", reasoning="Is it?"))
    assert np.isnan(of(TraceTokens(), words_only))
    assert of(TraceTokens(count="words"), words_only).tolist() == [2]
    assert TraceTokens().needs == {"reply", "logprobs"}
    assert TraceTokens(count="words").needs == {"reply"}


@pytest.mark.parametrize("method", ["linear_sum", "logistic", "ridge"])
def test_a_trace_is_fitted_on_the_rows_that_have_one(method):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 30, size=80)
    quality = (rng.random(80) > lengths / 40).astype(float)
    every = [replies(first=generation([-0.1] * (n + 1), reasoning="so " * n, answer_start=int(n))) for n in lengths]
    bare = replies(first=SILENT)
    all_of_them = LabelledOutput.of_classes(of_replies([bare, *every], width=2), np.zeros(81, dtype=int))
    fitted = Trace(method=method).fit(all_of_them, np.append(1.0, quality))
    alone = Trace(method=method).fit(all_of_them.rows(slice(1, None)), quality)
    values = fitted.of(all_of_them.output)
    assert np.isnan(values[0])
    assert values[1:].tolist() == alone.of(all_of_them.output)[1:].tolist()
    assert np.corrcoef(values[1:], lengths)[0, 1] > 0.9  # the longer it goes on, the less sure
    with pytest.raises(InvalidInput, match="none of 1 replies has a trace"):
        Trace(method=method).fit(all_of_them.rows(slice(0, 1)), np.ones(1))


def test_repeated_passes_may_be_sampled_replies():
    row = replies(options=(0, 1, 2), samples=(2, 2, 1, None))
    frequencies = [[0, 1 / 3, 2 / 3]]
    assert of(OverSamples(name="sampled_max_probability"), row, width=3) == pytest.approx([1 / 3])
    for name in ("mc_entropy", "bald"):  # each sample is sure of itself
        assert of(OverSamples(name=name), row, width=3) == pytest.approx(entropy(frequencies))
    for name in OF_PASSES:
        assert np.isnan(of(OverSamples(name=name), replies(samples=(None,))))[0]


def test_readings_as_arrays():
    rows = [replies(options=(0, 1), samples=(0, 0, 1, None)), replies(options=(0, 1, 2), samples=())]
    output = of_replies(rows, width=3)
    np.testing.assert_array_equal(shares(output), [[0.5, 0.25, 0], [np.nan] * 3])
    np.testing.assert_array_equal(on_offer(output), [[True, True, False], [True] * 3])
    assert sample_probabilities(rows[0], 3).tolist() == [0.625, 0.375, 0]
    assert np.isnan(sample_probabilities(rows[1], 3)).all()
    assert on_offer(Output.from_logits(np.zeros((1, 3)))) is None


def test_probabilities_of_samples_are_the_same_in_any_order():
    rng = np.random.default_rng(0)
    for _ in range(50):
        samples = [None if one == 3 else int(one) for one in rng.integers(4, size=9)]
        row = replies(options=(0, 1, 2), samples=tuple(samples))
        turned = replace(row, samples=tuple(reversed(samples)))
        assert sample_probabilities(row, 3).tolist() == sample_probabilities(turned, 3).tolist()
        assert sample_probabilities(row, 3).sum() == pytest.approx(1)


SCALES = {"a": np.array([1.0, np.nan, 3.0, 2.0, np.inf]), "b": np.array([2.0, 1.0, np.nan, 5.0, 1.0])}


@pytest.mark.parametrize(
    "recipe", [Hybrid(epistemic="a", aleatoric="b"), Logistic(of=("a", "b")), Combined(info="a", consistency="b")]
)
def test_what_is_made_of_several_scores_is_unknown_where_one_of_them_is(recipe):
    fitted = recipe.fit(SCALES, np.array([1.0, 1, 0, 0, 1]))
    values = fitted.of(SCALES)
    assert np.isnan(values).tolist() == [False, True, True, False, True]
    only = {name: scale[[0, 3]] for name, scale in SCALES.items()}
    assert recipe.fit(only, np.array([1.0, 0])).of(only).tolist() == values[[0, 3]].tolist()
    nothing = {name: np.full(5, np.nan) for name in SCALES}
    assert np.isnan(fitted.of(nothing)).all()


def test_u_combined_is_a_product():
    mix = Combined(info="a", consistency="b").fit(SCALES, np.ones(5))
    assert mix.of(SCALES)[[0, 3]].tolist() == [2.0, 10.0]


def test_a_row_without_any_reply_is_unknown():
    output = of_replies([replies(), replies()], width=2)
    output = replace(output, replies=as_column([replies(), None]))
    for name in REPLY_SCORES:
        if name != "trace":
            assert np.isnan(SCORES[name]().of(output)).tolist() == [False, True]
