"""What a model is asked about two texts, and what its reply is read as."""

import asyncio

import pytest

from demur.serve.hosts.language.pair import PairJudge, judge_fingerprint, read_side
from demur.serve.hosts.language.prompts import BadPrompt
from tests.serve.comparing import ComparingEngine, configured, judge_of


@pytest.mark.parametrize(
    ("reply", "side"),
    [
        ("A", "A"),
        (" b.\n", "B"),
        ("[A]", "A"),
        ("**B**", "B"),
        ("[A] 17 + 25", "A"),
        ("B: the second one", "B"),
        ("The answer is B.", "B"),
        ("Answer: A", "A"),
        ("A is weaker, so the answer is B", "B"),
        ("Input B is more surely strong.", "B"),
        ("Text A, I would say.", "A"),
        ("Input A beats input B", None),
        ("", None),
        ("A or B", None),
        ("A great text, I think", None),  # a word, not a letter
        ("Both [A] and [B] are strong.", None),
        ("neither", None),
        ("C", None),
        ("AB", None),
    ],
)
def test_read_side(reply, side):
    assert read_side(reply) == side


def test_the_template_of_the_configuration_is_used_and_is_part_of_the_judge(tmp_path):
    own = tmp_path / "pair.jinja"
    own.write_text("{% block user %}\nWhich is larger?\n[A] {{ first }}\n[B] {{ second }}\n{% endblock %}\n")
    model = judge_of(configured(tmp_path))
    other = model.model_copy(update={"prompt": model.prompt.model_copy(update={"pair_template": own})})
    said = []

    class Engine(ComparingEngine):
        async def generate(self, messages, asking):
            said.append(messages)
            return await super().generate(messages, asking)

    engine = Engine({"9": 9.0, "1": 1.0}, sharpness=100)
    for config, roles in ((model, ["system", "user"]), (other, ["user"])):
        compared = asyncio.run(PairJudge(config, engine).compare("1", "9"))
        assert compared.side == "B"
        assert (compared.usage.prompt_tokens, compared.usage.completion_tokens, compared.usage.calls) == (20, 1, 1)
        assert [message["role"] for message in said[-1]] == roles
    assert "strong" in said[0][0]["content"]
    assert said[1][0]["content"] == "Which is larger?\n[A] 1\n[B] 9"
    prints = {judge_fingerprint(config, weights) for config in (model, other) for weights in ("w", "v")}
    assert len(prints) == 4


@pytest.mark.parametrize("text", ["{% block user %}{{ nothing }}{% endblock %}", "{{ first }}", "{% block user %}"])
def test_a_template_that_cannot_be_used_is_one_sentence(tmp_path, text):
    own = tmp_path / "pair.jinja"
    own.write_text(text)
    model = judge_of(configured(tmp_path))
    model = model.model_copy(update={"prompt": model.prompt.model_copy(update={"pair_template": own})})
    with pytest.raises(BadPrompt, match=r"pair\.jinja"):
        asyncio.run(PairJudge(model, ComparingEngine({})).compare("a", "b"))
