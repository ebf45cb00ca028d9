import asyncio
import itertools
import json

import numpy as np
import pytest

from demur.policies.conformal_sets import FrequencySets
from demur.policies.label_sets import seen_by
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed
from demur.serve.contract.inputs import Conversation, Question
from demur.serve.contract.model import ModelRequest
from demur.serve.contract.reading.inputs import read_input
from demur.serve.hosts.language.few_shot import LIMITS
from demur.serve.hosts.language.forms import UnfitExample
from demur.serve.hosts.language.model import LanguageModel
from demur.serve.hosts.language.prompts import BadPrompt
from demur.serve.hosts.language.transformers_engine import TransformersEngine
from deploy.models.sums.exercises import CODES, exercises
from tests.conftest import ROOT
from tests.serve.scripted import ALL, ScriptedEngine, configured, generation

QUESTION = Question(question="What is 47 + 85?", options=("122", "131", "132", "142"))
CHAT = Conversation(messages=({"role": "user", "content": "What is 2 + 2?"},))
SUMS = ROOT / "deploy/models/sums/prompts"
REPLY = {"reply"}
SAMPLES = {"reply", "samples"}


def run(model, engine, inputs, needs=REPLY, **more):
    return asyncio.run(LanguageModel(model, engine).run(ModelRequest(inputs=inputs, needs=frozenset(needs), **more)))


def by_turns(*replies):
    """A script of greedy replies of the first text, and of sampled ones of the others in turn."""
    sampled = itertools.cycle(replies[1:] or replies)
    return lambda messages, asking: (
        [next(sampled) for _ in range(asking.n)] if asking.temperature else [replies[0]] * asking.n
    )


def always_132(messages, asking):
    """Chooses the option 132 wherever it stands."""
    return next(line for line in messages[-1]["content"].splitlines() if line.endswith("] 132"))


@pytest.mark.parametrize(
    ("task", "value", "reply", "said", "probabilities"),
    [
        ("binary", "a text", "Yes.", 1, [0, 1]),
        ("multiclass", "a text", "It is green", 1, [0, 1, 0]),
        ({"kind": "choice", "labels": list("ABCD")}, QUESTION, "[C] 132", 2, [0, 0, 1, 0]),
        ({"kind": "choice", "labels": list("ABCD")}, Question(question="?", options=("x", "y")), "B", 1, [0, 1, 0, 0]),
        ("multilabel", "a text", "B01", (2,), [0, 0, 1]),
        ("multilabel", "a text", "none", (), [0, 0, 0]),
        ({"kind": "multilabel", "tree": "imdrf"}, "a text", "A0101", (0, 1), [1, 1, 0]),
        ("generate", CHAT, " Four. ", "four", [1, 0]),
        ({"kind": "generate", "match": "number"}, CHAT, "That is 4.", "4", [1, 0]),
    ],
)
def test_a_reply_becomes_probabilities(task, value, reply, said, probabilities):
    output = run(configured(task), ScriptedEngine(reply), [value])
    assert output.usable().all()
    assert output.probabilities.tolist() == [probabilities]
    assert np.isfinite(output.logits).all()
    assert output.replies[0].said == said
    assert output.replies[0].first.text == reply


def test_logits_are_of_the_probabilities():
    exclusive = run(configured("binary"), ScriptedEngine("yes"), ["a"]).logits[0]
    assert exclusive[1] == 0
    assert exclusive[0] < -20
    several = run(configured("multilabel"), ScriptedEngine("A01"), ["a"]).logits[0]
    assert several[0] > 20
    assert several[1] < -20


def test_what_is_not_asked_for_is_not_told():
    engine = ScriptedEngine("yes")
    output = run(configured("binary"), engine, ["a text"], {"probabilities"})
    assert output.replies[0].usage.calls == 1  # what it cost is always known
    assert output.only(frozenset({"probabilities"})).replies is None
    assert output.mc_probabilities is None
    assert engine.calls == 1
    assert engine.asked[0][1] == Asking(max_tokens=256)


@pytest.mark.parametrize(
    ("needs", "logprobs", "top"),
    [
        ({"reply"}, False, 0),
        ({"logprobs"}, True, 0),
        ({"top_logprobs"}, True, 5),
        ({"logprobs", "top_logprobs"}, True, 5),
    ],
)
def test_log_probabilities_are_asked_for_where_a_score_needs_them(needs, logprobs, top):
    engine = ScriptedEngine("yes")
    reply = run(configured("binary"), engine, ["a text"], needs).replies[0]
    assert (engine.asked[0][1].logprobs, engine.asked[0][1].top_logprobs) == (logprobs, top)
    assert (reply.logprobs() is not None) == logprobs
    assert (reply.top_logprobs() is not None) == bool(top)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("perhaps", "names none"),
        ("yes or no", "several"),
        (EngineFailed("no memory"), "no memory"),
        (ZeroDivisionError("a secret"), "log says what"),
        ([], "0 replies where 1"),
    ],
)
def test_a_row_that_cannot_be_read_says_why_and_harms_no_other(reply, why):
    engine = ScriptedEngine(lambda messages, asking: reply if "bad" in messages[-1]["content"] else "yes")
    output = run(configured("binary"), engine, ["good", "bad", "good"], {"reply", "samples", "mc_probabilities"})
    assert output.usable().tolist() == [True, False, True]
    assert why in output.unreadable[1]
    assert np.isnan(output.probabilities[1]).all()
    assert output.probabilities[2].tolist() == [0, 1]
    assert output.replies[1].said is None
    assert output.replies[1].samples == ()  # nothing more is spent on it


def test_a_row_whose_samples_fail_is_unreadable():
    def script(messages, asking):
        return EngineFailed("it is gone") if asking.temperature and "bad" in messages[-1]["content"] else "yes"

    output = run(configured("binary"), ScriptedEngine(script), ["bad", "good"], SAMPLES)
    assert output.usable().tolist() == [False, True]
    assert "it is gone" in output.unreadable[0]


def test_rows_run_at_the_same_time():
    async def three():
        together = asyncio.Barrier(3)

        class Waiting(ScriptedEngine):
            async def generate(self, messages, asking):
                await together.wait()
                return await super().generate(messages, asking)

        model = LanguageModel(configured("binary"), Waiting("yes"))
        return await asyncio.wait_for(
            model.run(ModelRequest(inputs=["a", "b", "c"], needs=frozenset(REPLY))), timeout=10
        )

    assert asyncio.run(three()).usable().all()


def test_a_cancelled_run_stops_what_it_started():
    async def cancelled():
        left = []

        class Endless(ScriptedEngine):
            async def generate(self, messages, asking):
                try:
                    await asyncio.Event().wait()
                finally:
                    left.append(messages)

        task = asyncio.create_task(
            LanguageModel(configured("binary"), Endless()).run(ModelRequest(inputs=["a", "b"], needs=frozenset(REPLY)))
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return left

    assert len(asyncio.run(cancelled())) == 2


def test_a_reply_that_was_cut_off_is_read_and_where_that_fails_it_is_said():
    for reply, said in (("yes", 1), ("", None)):
        engine = ScriptedEngine(lambda messages, asking, reply=reply: generation(reply, finish_reason="length"))
        output = run(configured("binary"), engine, ["a"])
        assert output.replies[0].said == said
    assert "host.max_tokens" in output.unreadable[0]


def test_a_second_counts_once_however_many_requests_were_on_their_way():
    class Slow(ScriptedEngine):
        async def generate(self, messages, asking):
            nonlocal now
            started = now
            await asyncio.sleep(0)
            now = max(now, started + 1.0)
            return await super().generate(messages, asking)

    now = 0.0
    model = configured("choice", samples={"max": 6})
    told = LanguageModel(model, Slow("A"), clock=lambda: now)
    usage = asyncio.run(told.run(ModelRequest(inputs=[QUESTION], needs=frozenset(SAMPLES)))).replies[0].usage
    assert usage.calls > 3
    assert usage.seconds == 2.0  # the greedy reply, and then all of the samples


# choices


def choice(**prompt):
    return configured({"kind": "choice", "labels": list("ABCD")}, prompt={"template": SUMS / "choice.jinja", **prompt})


def test_samples_of_a_choice_see_other_orders_and_are_mapped_back():
    engine = ScriptedEngine(always_132)
    replies = run(choice(), engine, [QUESTION], SAMPLES).replies[0]
    assert replies.said == 2
    assert replies.samples == (2,) * 10
    assert replies.options == (0, 1, 2, 3)
    prompts = [messages[-1]["content"] for messages, _ in engine.asked]
    assert prompts[0].splitlines()[1:] == ["[A] 122", "[B] 131", "[C] 132", "[D] 142"]  # the caller's order
    assert len(set(prompts)) > 3
    assert sum(asking.n for _, asking in engine.asked) == 11


def test_a_model_that_likes_a_letter_is_found_out_by_other_orders():
    replies = run(choice(), ScriptedEngine("A"), [QUESTION], SAMPLES).replies[0]
    assert replies.said == 0
    assert len(set(replies.samples)) > 1
    straight = run(choice(shuffle=False), ScriptedEngine("A"), [QUESTION], SAMPLES).replies[0]
    assert straight.samples == (0,) * 10


@pytest.mark.parametrize(
    ("reply", "meant", "said", "calls"),
    [
        ("it must be 132", "", 2, 1),  # by the option's own text
        ("one hundred and thirty-two", "C", 2, 2),  # by asking what it means
        ("one hundred and thirty-two", "none", None, 2),
        ("one hundred and thirty-two", "dunno", None, 2),
        ("The answer is A. No, the answer is C.", "C", None, 1),  # two letters are settled
        ("", "C", None, 1),
    ],
)
def test_a_reply_without_a_letter_is_mapped(reply, meant, said, calls):
    def script(messages, asking):
        return meant if "Reply:" in messages[-1]["content"] else reply

    engine = ScriptedEngine(script)
    output = run(choice(), engine, [QUESTION])
    assert output.replies[0].said == said
    assert output.usable().tolist() == [said is not None]
    assert engine.calls == calls


def test_the_mapping_prompt_shows_the_options_as_the_reply_saw_them():
    def script(messages, asking):
        if "Reply:" not in messages[-1]["content"]:
            return "the sum"
        return always_132(messages, asking)

    replies = run(choice(), ScriptedEngine(script), [QUESTION], SAMPLES).replies[0]
    assert replies.said == 2
    assert set(replies.samples) == {2}


# probabilities


@pytest.mark.parametrize("kind", ["first_token", "full_label"])
def test_probabilities_come_from_log_probabilities_of_the_labels(kind):
    engine = ScriptedEngine("no", labels=lambda messages, labels: np.log([0.1, 0.3]))
    output = run(configured("binary", prompt={"probabilities": kind}), engine, ["a"], {"probabilities"})
    assert np.allclose(output.probabilities, [[0.25, 0.75]])  # among each other
    assert np.allclose(output.logits, np.log([[0.25, 0.75]]))
    assert engine.labels_asked[0][1:] == (("no", "yes"), kind == "first_token")
    assert engine.asked == []  # nobody wants a reply


def test_labels_of_a_choice_are_written_as_the_template_writes_answers():
    two = Question(question="?", options=("x", "y"))
    engine = ScriptedEngine(labels=lambda messages, labels: np.log([0.2, 0.6]))
    output = run(choice(probabilities="full_label"), engine, [two], {"probabilities"})
    assert engine.labels_asked[0][1] == ("[A] x", "[B] y")
    assert np.allclose(output.probabilities, [[0.25, 0.75, 0, 0]])
    assert np.isfinite(output.logits).all()
    with pytest.raises(CannotGive, match="full_label"):
        LanguageModel(choice(probabilities="first_token"), engine)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ([np.nan, -1.0], "gave the label 'no' no probability"),
        ([-np.inf, -np.inf], "gave every label the probability 0"),
    ],
)
def test_labels_without_a_probability_are_missing_and_not_zero(told, why):
    engine = ScriptedEngine("yes", labels=lambda messages, labels: told)
    output = run(configured("binary", prompt={"probabilities": "full_label"}), engine, ["a"])
    assert not output.usable().any()
    assert np.isnan(output.probabilities).all()
    assert why in output.unreadable[0]


def test_an_impossible_label_has_a_finite_logit():
    engine = ScriptedEngine(labels=lambda messages, labels: [-np.inf, -1.0])
    output = run(configured("binary", prompt={"probabilities": "full_label"}), engine, ["a"], {"probabilities"})
    assert output.probabilities.tolist() == [[0, 1]]
    assert np.isfinite(output.logits).all()


def test_probabilities_are_how_often_each_label_was_sampled():
    model = configured("binary", prompt={"probabilities": "samples"}, samples={"max": 4})
    engine = ScriptedEngine(by_turns("no", "yes", "yes", "no", "?"))
    output = run(model, engine, ["a"], {"probabilities"})
    assert np.allclose(output.probabilities, [[1.5 / 4, 2.5 / 4]])  # what cannot be read speaks for both
    assert [asking.n for _, asking in engine.asked] == [4]
    nothing = run(model, ScriptedEngine("?"), ["a"], {"probabilities"})
    assert "none of the sampled replies" in nothing.unreadable[0]
    assert np.isnan(nothing.probabilities).all()


def test_a_reply_that_cannot_be_read_is_no_matter_where_it_is_not_the_prediction():
    engine = ScriptedEngine("?", labels=lambda messages, labels: np.log([0.2, 0.8]))
    output = run(configured("binary", prompt={"probabilities": "full_label"}), engine, ["a"], {"reply", "logprobs"})
    assert output.usable().all()
    assert output.replies[0].said is None


def test_the_engine_is_kept_to_the_labels():
    engine = ScriptedEngine("yes")
    run(configured("binary", prompt={"constrained": True}), engine, ["a"], SAMPLES)
    assert [asking.only for _, asking in engine.asked] == [("no", "yes")] * 2
    choices = ScriptedEngine(always_132)
    run(choice(constrained=True), choices, [QUESTION], SAMPLES)
    for messages, asking in choices.asked:
        assert list(asking.only) == messages[-1]["content"].splitlines()[1:]


# samples


def test_samples_are_drawn_with_their_settings_and_share_a_prompt():
    engine = ScriptedEngine(by_turns("no", "yes", "no", "?"))
    model = configured("binary", samples={"max": 6, "temperature": 0.7, "top_p": 0.9})
    replies = run(model, engine, ["a"], SAMPLES).replies[0]
    assert replies.samples == (1, 0, None, 1, 0, None)
    greedy, sampled = (asking for _, asking in engine.asked)
    assert (greedy.temperature, greedy.n) == (0, 1)
    assert (sampled.temperature, sampled.top_p, sampled.n) == (0.7, 0.9, 6)
    assert replies.usage.prompt_tokens == 10  # of the one prompt, once
    assert replies.usage.completion_tokens == 7
    assert replies.usage.calls == 2


def seeds(model, value, **beside):
    engine = ScriptedEngine("yes")
    run(model, engine, [value, *beside.get("others", [])], SAMPLES)
    return [asking.seed for messages, asking in engine.asked if asking.temperature and value in messages[-1]["content"]]


def test_the_same_input_gets_the_same_samples_whatever_stands_beside_it():
    model = configured("binary")
    assert seeds(model, "one") == seeds(model, "one", others=["two", "three"])
    assert seeds(model, "one") != seeds(model, "two")
    assert seeds(model, "one") != seeds(configured("binary", samples={"seed": 1}), "one")


BUDGET = {"min": 2, "max": 5, "stop": "decision"}


def test_more_samples_are_drawn_while_somebody_wants_them():
    seen = []

    def more(output):
        seen.append([len(replies.samples) for replies in output.replies])
        return np.array([True, len(seen) < 2, len(seen) in (1, 3)])

    output = run(configured("binary", samples=BUDGET), ScriptedEngine("yes"), ["a", "b", "c"], SAMPLES, more=more)
    assert seen == [[0, 0, 0], [2, 2, 2], [4, 2, 2], [5, 2, 4]]
    assert [len(replies.samples) for replies in output.replies] == [5, 2, 4]


def test_rounds_draw_what_would_have_been_drawn_at_once():
    def script(messages, asking):
        rng = np.random.default_rng(asking.seed)
        return [str(rng.choice(["yes", "no"])) for _ in range(asking.n)]

    for model, value in (
        (configured("binary", samples=BUDGET, prompt={"probabilities": "samples"}), "a"),
        (
            configured("choice", samples=BUDGET, prompt={"probabilities": "samples"}),
            Question(question="?", options=("yes", "no")),
        ),
    ):
        at_once = run(model, ScriptedEngine(script), [value], SAMPLES)
        in_rounds = run(model, ScriptedEngine(script), [value], SAMPLES, more=lambda output: np.array([True]))
        stopped = run(model, ScriptedEngine(script), [value], SAMPLES, more=lambda output: np.array([False]))
        assert at_once.replies[0].samples == in_rounds.replies[0].samples
        assert stopped.replies[0].samples == at_once.replies[0].samples[:2]  # without any there are no probabilities


def test_rows_are_not_given_up_while_more_may_be_read():
    seen = []

    def more(output):
        seen.append((output.unreadable[0], output.replies[0].samples))
        return np.array([True])

    model = configured("binary", samples=BUDGET, prompt={"probabilities": "samples"})
    script = by_turns("?", "?", "?", "yes")
    output = run(model, ScriptedEngine(script), ["a"], {"probabilities"}, more=more)
    assert seen[0] == (None, (None, None))
    assert np.allclose(output.probabilities, [[0.4, 0.6]])  # four of five could not be read


def test_nobody_is_asked_for_more_where_no_score_looks_at_samples():
    engine = ScriptedEngine("yes")
    run(configured("binary", samples=BUDGET), engine, ["a"], REPLY, more=lambda output: np.array([True]))
    assert engine.calls == 1


def test_samples_are_passes_for_sets_that_read_those():
    engine = ScriptedEngine(by_turns("yes", "yes", "yes", "no", "?"))
    output = run(configured("binary", samples={"max": 8}), engine, ["a"], {"mc_probabilities"})
    assert output.mc_probabilities.shape == (1, 8, 2)
    sets = FrequencySets(alpha=0.1, qhat=0.8, n=9)
    assert seen_by(sets, output).tolist() == [[0.25, 0.5]]  # an unread sample counts and names nothing
    assert output.only(frozenset({"mc_probabilities"})).replies is None


def test_passes_need_all_of_the_samples():
    model = LanguageModel(configured("binary", samples=BUDGET), ScriptedEngine())
    with pytest.raises(CannotGive, match=r"samples\.min"):
        model.check(frozenset({"mc_probabilities"}))


# what the model says of itself


def self_report(stated="", rating="", reply="yes"):
    def script(messages, asking):
        if messages[0]["content"].startswith("You are told a question and labels"):
            return stated
        if messages[0]["content"].startswith("You are told a question and an answer"):
            return rating
        return reply

    return ScriptedEngine(script)


@pytest.mark.parametrize(("said", "rating"), [("[80]", 0.8), ("I am sure", None), ("[180]", None), ("", None)])
def test_a_rating_is_asked_for_after_the_answer(said, rating):
    engine = self_report(rating=said)
    output = run(configured("binary"), engine, ["Is it so?"], {"rating"})
    assert output.replies[0].rating == rating
    assert output.usable().all()
    assert len(engine.asked) == 2
    asked = engine.asked[1][0][-1]["content"]
    assert "Is it so?" in asked
    assert asked.endswith("yes")


def test_a_rating_sees_neither_the_trace_nor_the_examples():
    engine = self_report(
        rating="[80]", reply=generation("4", reasoning="secret", tokens=["secret", "4"], answer_start=1)
    )
    output = run(configured("generate"), engine, [CHAT], {"rating"})
    assert output.replies[0].rating == 0.8
    assert "secret" not in json.dumps(engine.asked[1][0])


@pytest.mark.parametrize(
    ("task", "value", "reply", "stated", "known"),
    [
        ("binary", "a", "yes", '{"no": 0.25, "yes": 0.75}', {0: 0.25, 1: 0.75}),
        ("choice", QUESTION, "C", '{"A": 0, "C": 0.5}', {0: 0, 2: 0.5}),
        ("multilabel", "a", "A0101\nB01", '{"A0101": 0.5, "B01": 1, "A01": 0.1}', {1: 0.5, 2: 1}),
        ({"kind": "multilabel", "tree": "imdrf"}, "a", "A0101", '{"A0101": 0.5}', {0: 0.5, 1: 0.5}),
        ("multilabel", "a", "none", "never asked", {}),
        ("binary", "a", "yes", "very sure", None),
    ],
)
def test_confidences_are_stated_in_one_go(task, value, reply, stated, known):
    output = run(configured(task), self_report(stated=stated, reply=reply), [value], {"stated"})
    assert output.replies[0].stated == known
    assert output.usable().all()


def test_a_reply_as_json_states_them_itself():
    model = configured({"kind": "multilabel", "tree": "imdrf"}, prompt={"reply": "json"})
    engine = ScriptedEngine('{"A0101": 0.5, "Z99": 0.9}')
    output = run(model, engine, ["a"], {"stated"})
    assert output.replies[0].stated == {0: 0.5, 1: 0.5}
    assert output.replies[0].unknown == ("Z99",)
    assert output.probabilities.tolist() == [[1, 1, 0]]
    assert engine.calls == 1


def test_nothing_is_asked_about_a_reply_that_could_not_be_read():
    engine = self_report(reply="?", rating="[80]", stated="{}")
    run(configured("binary"), engine, ["a"], {"rating", "stated"})
    assert engine.calls == 1


# labels among tokens


def test_each_label_has_its_own_tokens_and_lends_them_to_those_above_it():
    reply = generation("B01\n- A0101\nZ9", tokens=["B", "01", "\n-", " A", "0101\n", "Z9"])
    model = configured({"kind": "multilabel", "tree": "imdrf"})
    replies = run(model, ScriptedEngine(lambda messages, asking: reply), ["a"], {"logprobs"}).replies[0]
    assert replies.said == (0, 1, 2)
    assert replies.spans == {0: (3, 5), 1: (3, 5), 2: (0, 2)}
    assert replies.unknown == ("Z9",)


# examples


def test_the_nearest_examples_stand_before_the_question(tmp_path):
    rows = [("is a cat a pet", "yes"), ("is a rock a pet", "no"), ("Is a dog  a pet?", "yes")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"input": a, "label": b}) + "\n" for a, b in rows))
    few_shot = {"examples": tmp_path / "rows.jsonl", "k": 2}
    engine = ScriptedEngine("yes")
    run(configured("binary", prompt={"few_shot": few_shot}), engine, ["is a dog a pet?"], SAMPLES)
    for messages, _ in engine.asked:
        said = [message["content"] for message in messages[1:]]
        assert len(said) == 5
        assert "Is a dog  a pet?" not in said  # it is the question itself
        assert said[-1] == "is a dog a pet?"


def test_examples_of_the_log_are_handed_in():
    model = configured("binary", prompt={"few_shot": {"examples": "reviews"}})
    engine = ScriptedEngine("yes")
    told = LanguageModel(model, engine, reviewed=lambda: [("a case", "no")])
    asyncio.run(told.run(ModelRequest(inputs=["another"], needs=frozenset(REPLY))))
    assert [message["content"] for message in engine.asked[0][0][1:]] == ["a case", "no", "another"]
    with pytest.raises(UnfitExample):
        LanguageModel(model, engine)


def test_a_log_without_examples_is_no_hindrance():
    engine = ScriptedEngine("yes")
    told = LanguageModel(configured("binary", prompt={"few_shot": {"examples": "reviews"}}), engine, reviewed=list)
    assert asyncio.run(told.run(ModelRequest(inputs=["a text"], needs=frozenset(REPLY)))).usable().all()
    assert len(engine.asked[0][0]) == 2


# what cannot be had


@pytest.mark.parametrize(
    ("task", "needs", "lacking", "setting"),
    [
        ("binary", {"logprobs"}, "logprobs", "log-probabilities|logprobs"),
        ("binary", {"top_logprobs"}, "top_logprobs", "top logprobs"),
        ("binary", {"embedding"}, None, "scores"),
        ("generate", {"stated"}, None, "rating"),
        ("generate", {"mc_probabilities"}, None, "labels"),
    ],
)
def test_what_the_host_cannot_give_is_told_before_anything_runs(task, needs, lacking, setting):
    engine = ScriptedEngine("yes", gives=ALL - {lacking})
    model = LanguageModel(configured(task), engine)
    with pytest.raises(CannotGive, match=setting):
        model.check(frozenset(needs))
    with pytest.raises(CannotGive, match=setting):
        asyncio.run(model.run(ModelRequest(inputs=[model.example()], needs=frozenset(needs))))
    model.check(frozenset({"reply", "samples", "rating"}))
    assert engine.calls == 0


@pytest.mark.parametrize(
    ("prompt", "lacking", "setting"),
    [
        ({"probabilities": "first_token"}, "label_logprobs", "prompt.probabilities"),
        ({"probabilities": "full_label"}, "label_logprobs", "`reply` or `samples`"),
        ({"constrained": True}, "constrained", "prompt.constrained"),
    ],
)
def test_settings_that_the_host_cannot_follow_are_refused_at_once(prompt, lacking, setting):
    with pytest.raises(CannotGive, match=setting):
        LanguageModel(configured("binary", prompt=prompt), ScriptedEngine(gives=ALL - {lacking}))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "choice", "generate"])
def test_there_is_an_example_of_every_kind(kind):
    model = LanguageModel(configured(kind), ScriptedEngine(lambda messages, asking: "A"))
    output = asyncio.run(model.run(ModelRequest(inputs=[model.example()], needs=frozenset(REPLY))))
    assert len(output) == 1
    assert model.spec.kind == {"choice": "choice", "generate": "chat"}.get(kind, "text")


def test_a_template_that_fails_on_an_input_fails_for_that_row(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text("{% block user %}{{ 1 // (input | length - 7) }}{{ input }}{% endblock %}")
    output = run(configured("binary", prompt={"template": path}), ScriptedEngine("yes"), ["good one", "bad one"])
    assert output.usable().tolist() == [True, False]
    assert "could not be asked" in output.unreadable[1]
    path.write_text("{% block user %}{{ nothing }}{% endblock %}")
    with pytest.raises(BadPrompt):
        LanguageModel(configured("binary", prompt={"template": path}), ScriptedEngine())


# the real thing


@pytest.mark.slow
def test_the_sums_model_is_asked_and_read_in_every_shape():
    tree = {"kind": "multilabel", "labels": [code for code in CODES if len(code) > 3], "tree": "imdrf"}
    few = {"samples": {"max": 2}}
    by_letters = {"template": SUMS / "choice.jinja", "probabilities": "full_label"}
    claims = {"template": SUMS / "claim.jinja", "probabilities": "first_token", "constrained": True}
    tasks = {
        "choice": configured({"kind": "choice", "labels": list("ABCD")}, prompt=by_letters, **few),
        "claim": configured("binary", prompt=claims, **few),
        "labels": configured(tree, prompt={"template": SUMS / "labels.jinja"}, **few),
        "total": configured({"kind": "generate", "match": "number"}, **few),
        "think": configured({"kind": "generate", "match": "number"}, **few),
    }

    async def all_tasks():
        engine = TransformersEngine(str(SUMS.parent), device="cpu")
        for task, config in tasks.items():
            model = LanguageModel(config, engine)
            drawn = [one for level in (1, 2) for one in exercises(task, level, 5, seed=5)]
            inputs = [read_input(one.input, model.spec, LIMITS) for one in drawn]
            output = await model.run(
                ModelRequest(inputs=inputs, needs=frozenset({"logprobs", "top_logprobs", "samples"}))
            )
            yield task, config.task, drawn, output
        await engine.close()

    async def checked():
        async for task, config, drawn, output in all_tasks():
            assert output.usable().all(), (task, output.unreadable)
            right = 0
            for one, replies, probabilities in zip(drawn, output.replies, output.probabilities, strict=True):
                assert len(replies.samples) == 2
                assert replies.logprobs() is not None
                predicted = int(probabilities.argmax())
                if task == "labels":
                    assert set(replies.spans) == set(replies.said)  # each has tokens of its own
                    right += [config.labels[label] for label in replies.said] == config.with_ancestors(one.label)
                elif task == "choice":
                    right += one.input["options"][predicted] == one.label
                elif task == "claim":
                    right += config.labels[predicted] == one.label
                else:
                    right += replies.said == one.label
                    assert (replies.first.reasoning is not None) == (task == "think")
            assert right >= 0.3 * len(drawn), task

    asyncio.run(checked())


def test_a_text_that_is_not_finished_is_held_and_a_label_is_read_all_the_same():
    def cut_off(messages, asking):
        return [generation("yes, because", finish_reason="length")] * asking.n

    text = run(configured("generate"), ScriptedEngine(cut_off), [CHAT])
    assert text.unreadable[0] == "the text is not finished; it was cut off at `host.max_tokens`"
    assert text.replies[0].first.text == "yes, because"  # for whoever reviews it
    assert run(configured("binary"), ScriptedEngine(cut_off), ["a"]).unreadable[0] is None
