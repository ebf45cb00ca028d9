import asyncio
import os
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest

from demur.serve.contract.engine import Asking, CannotGive, EngineFailed
from tests.vllm.conftest import small_host

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    # vLLM's own, and that of the libraries it brings
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

CONTENTS = ("What is 47 + 85?", "Is 17 + 25 = 43?", "Which labels fit 42?", "Work out 47 + 85 + 36.", "What is 4 + 3?")
QUESTION, *OTHERS = [[{"role": "user", "content": content}] for content in CONTENTS]
GREEDY = Asking(max_tokens=80, logprobs=True, top_logprobs=3)
SAMPLED = Asking(max_tokens=12, n=4, temperature=2.0, seed=7, logprobs=True)

LONG = Asking(max_tokens=480, n=2, temperature=1.0, only=("1" * 400,))


@pytest.fixture(scope="module")
def other(sums):
    """The same checkpoint in transformers."""
    from demur.serve.hosts.language.transformers_engine import TransformersEngine

    opened = TransformersEngine(sums, device="cpu")
    yield opened
    asyncio.run(opened.close())


async def all_of(engine, *asked):
    return await asyncio.gather(*(engine.generate(messages, asking) for messages, asking in asked))


def assert_same(own, theirs):
    assert own.tokens == theirs.tokens
    assert (own.text, own.reasoning, own.answer_start) == (theirs.text, theirs.reasoning, theirs.answer_start)
    assert (own.finish_reason, own.prompt_tokens) == (theirs.finish_reason, theirs.prompt_tokens)
    np.testing.assert_allclose(own.logprobs, theirs.logprobs, atol=1e-3)
    for mine, others in zip(own.top_logprobs, theirs.top_logprobs, strict=True):
        np.testing.assert_allclose(mine, others, atol=1e-3)


def test_an_engine_that_dies_says_so_and_another_can_be_started(sums, loop, request):
    """First of all tests, so that the one that is started then is the one that the others ask."""
    from demur.serve.hosts.language.vllm_engine import VllmEngine

    before = children()
    doomed = loop.wait(VllmEngine.started(small_host(sums)))
    [core] = [child for child in children() - before if "EngineCore" in " ".join([child.name(), *child.cmdline()])]

    async def die():
        running = asyncio.create_task(doomed.generate(QUESTION, LONG))
        await until(lambda: unfinished(doomed) == 2)
        core.kill()
        with pytest.raises(EngineFailed, match="dead"):
            await running
        with pytest.raises(EngineFailed, match="dead"):
            await doomed.check_health()
        with pytest.raises(EngineFailed, match="dead"):
            await doomed.generate(QUESTION, GREEDY)
        await doomed.close()

    loop.wait(die())
    recovered = request.getfixturevalue("engine")
    assert loop.wait(recovered.generate(QUESTION, GREEDY))[0].tokens
    loop.wait(recovered.check_health())


@pytest.mark.parametrize("messages", [QUESTION, *OTHERS], ids=CONTENTS)
def test_greedy_replies_agree_with_transformers(engine, loop, other, messages):
    [own] = loop.wait(engine.generate(messages, GREEDY))
    [theirs] = asyncio.run(other.generate(messages, GREEDY))
    assert_same(own, theirs)
    assert own.completion_tokens == theirs.completion_tokens
    assert own.tokens


def test_what_is_not_asked_for_is_not_told(engine, loop):
    plain, own = loop.wait(
        all_of(engine, (QUESTION, Asking(max_tokens=8)), (QUESTION, Asking(max_tokens=8, logprobs=True)))
    )
    assert plain[0].logprobs is None
    assert plain[0].tokens == own[0].tokens
    assert own[0].top_logprobs is None


def test_samples_of_a_seed_are_the_same_whatever_runs_beside_them(engine, loop):
    [alone] = loop.wait(all_of(engine, (QUESTION, SAMPLED)))
    crowd = [(messages, replace(SAMPLED, seed=i, temperature=1.5)) for i, messages in enumerate(OTHERS)]
    together = loop.wait(all_of(engine, *crowd, (QUESTION, GREEDY), (QUESTION, SAMPLED)))
    assert [reply.tokens for reply in together[-1]] == [reply.tokens for reply in alone]
    for own, again in zip(alone, together[-1], strict=True):
        np.testing.assert_allclose(own.logprobs, again.logprobs, atol=1e-3)
    [unlike] = loop.wait(all_of(engine, (QUESTION, replace(SAMPLED, seed=100))))
    assert [reply.tokens for reply in unlike] != [reply.tokens for reply in alone]


def test_greedy_replies_are_all_the_same(engine, loop):
    one, three = loop.wait(all_of(engine, (QUESTION, GREEDY), (QUESTION, replace(GREEDY, n=3))))
    assert [reply.tokens for reply in three] == [one[0].tokens] * 3


def test_seeds_count_on_from_the_first_reply(engine, loop):
    four, one = loop.wait(all_of(engine, (QUESTION, SAMPLED), (QUESTION, replace(SAMPLED, n=1, seed=9))))
    assert four[2].tokens == one[0].tokens


def test_log_probabilities_of_samples_are_those_at_temperature_one(engine, loop, other):
    """Each is scored again by transformers, as the only text that may be written."""
    asking = replace(SAMPLED, temperature=1.7, top_p=0.9, max_tokens=3)
    for reply in loop.wait(engine.generate(QUESTION, asking)):
        if "\ufffd" in reply.text or not reply.text:
            continue
        [scored] = asyncio.run(other.generate(QUESTION, Asking(max_tokens=9, only=(reply.text,), logprobs=True)))
        if scored.tokens == reply.tokens:  # a sample may spell a text in another way than the tokenizer does
            np.testing.assert_allclose(reply.logprobs, scored.logprobs, atol=1e-3)


@pytest.mark.parametrize("asking", [replace(GREEDY, n=1), replace(GREEDY, n=5, temperature=1.5, seed=3)])
def test_only_what_is_allowed_is_written(engine, loop, other, asking):
    """Single characters, which every model spells in one way."""
    only = ("1", "3", "A", "7")
    replies = loop.wait(engine.generate(QUESTION, replace(asking, only=only)))
    assert {reply.text for reply in replies} <= set(only)
    for reply in replies:
        [scored] = asyncio.run(other.generate(QUESTION, replace(GREEDY, only=(reply.text,))))
        assert_same(reply, scored)
    if not asking.temperature:
        [theirs] = asyncio.run(other.generate(QUESTION, replace(asking, only=only)))
        assert_same(replies[0], theirs)


def test_longer_texts_are_allowed_too(engine, loop):
    only = ("A0101", "B0101\nB02", "yes", "[C] 132")
    [reply] = loop.wait(engine.generate(QUESTION, replace(GREEDY, only=only)))
    assert reply.text in only
    assert np.isfinite(reply.logprobs).all()


@pytest.mark.parametrize("first_token", [True, False])
def test_labels_are_scored_as_in_transformers(engine, loop, other, first_token):
    labels = ("yes", "1", "A0101", "B", "[", "What is ")
    own = loop.wait(engine.label_logprobs(QUESTION, labels, first_token=first_token))
    theirs = asyncio.run(other.label_logprobs(QUESTION, labels, first_token=first_token))
    np.testing.assert_allclose(own.values, theirs.values, atol=1e-3)
    assert own.prompt_tokens == theirs.prompt_tokens


def test_labels_take_nothing_from_other_requests(engine, loop):
    """vLLM's own way to score named tokens would: who asks for alternatives in the same batch then gets none."""

    async def mixed():
        scores = [engine.label_logprobs(QUESTION, ("yes", "no"), first_token=True) for _ in range(8)]
        *_, said = await asyncio.gather(*scores, *[engine.generate(QUESTION, GREEDY) for _ in range(8)])
        return said[0]

    said = loop.wait(mixed())
    [alone] = loop.wait(engine.generate(QUESTION, GREEDY))
    assert_same(said, alone)


def test_a_reply_ends_at_a_text_that_ends_it(engine, loop, other):
    [whole] = loop.wait(engine.generate(QUESTION, GREEDY))
    end = next(character for character in whole.text[1:] if character.isascii())
    asking = replace(GREEDY, stop=(end,))
    [own] = loop.wait(engine.generate(QUESTION, asking))
    [theirs] = asyncio.run(other.generate(QUESTION, asking))
    assert own.text == whole.text.split(end)[0]
    assert_same(own, theirs)


@pytest.mark.parametrize("messages", [QUESTION, OTHERS[2]])
def test_a_stream_is_the_reply_in_pieces(engine, loop, messages):
    async def pieces():
        return [piece async for piece in engine.stream(messages, GREEDY)]

    told = loop.wait(pieces())
    [whole] = loop.wait(engine.generate(messages, GREEDY))
    assert "".join(piece.text for piece in told) == whole.text
    assert "".join(piece.reasoning for piece in told) == (whole.reasoning or "")
    assert_same(told[-1].whole, whole)
    assert len(told) > 1


def test_a_cancelled_request_is_aborted(engine, loop):
    async def cancelled():
        running = asyncio.create_task(engine.generate(QUESTION, LONG))
        await until(lambda: unfinished(engine) == 2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: unfinished(engine) == 0)

    loop.wait(cancelled())
    assert loop.wait(engine.generate(QUESTION, GREEDY))[0].tokens


def test_a_closed_stream_is_aborted(engine, loop):
    async def closed():
        stream = engine.stream(QUESTION, replace(LONG, n=1))
        async for _ in stream:
            break
        assert unfinished(engine) == 1
        await stream.aclose()
        await until(lambda: unfinished(engine) == 0)

    loop.wait(closed())
    assert loop.wait(engine.generate(QUESTION, GREEDY))[0].tokens


def test_what_the_engine_refuses(engine, loop):
    with pytest.raises(EngineFailed, match="prompt and reply may have 512"):
        loop.wait(engine.generate([{"role": "user", "content": "1" * 600}], GREEDY))
    with pytest.raises(CannotGive, match="max_logprobs: 30"):
        loop.wait(engine.generate(QUESTION, replace(GREEDY, top_logprobs=30)))
    with pytest.raises(CannotGive, match="begin with the same token"):
        loop.wait(engine.label_logprobs(QUESTION, ("A01", "A02"), first_token=True))
    loop.wait(engine.check_health())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_model_length": 5}, "no engine argument 'max_model_length'; did you mean 'max_model_len'"),
        ({"model": "x"}, r"that is host\.checkpoint"),
        ({"max_model_len": "many"}, "vLLM takes no engine like this"),
    ],
)
def test_engine_arguments_that_vllm_does_not_take(sums, loop, arguments, message):
    from demur.serve.hosts.language.vllm_engine import VllmEngine

    with pytest.raises(CannotGive, match=message):
        loop.wait(VllmEngine.started(small_host(sums, **arguments)))


def children():
    return set(psutil.Process(os.getpid()).children(recursive=True))


def unfinished(engine):
    return engine._engine.get_num_unfinished_requests()


async def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.005)
