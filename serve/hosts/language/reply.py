"""A reply put together from the tokens that an engine of ours wrote: the same from every one of them."""

from collections.abc import Callable, Sequence
from typing import Any

from demur.serve.hosts.language.reasoning import CLOSE, OPEN, ReasoningSplit, answer_start, cut_off, split
from demur.serve.hosts.language.tokenizer_inside import inside_of
from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Generation

UNREADABLE = "\ufffd"
"""What a tokenizer writes for bytes that are no character yet."""

MOST_UNTOLD = 8
"""Tokens that are waited for until a character is whole, of which UTF-8 makes up to four bytes."""


class TokenTexts:
    """The text of each token of a reply. Put together they are the whole text, whatever the tokenizer does at borders.

    A character whose bytes are several tokens is the text of the last of these, and the others are empty. Tokens that
    only steer the model are empty too.
    """

    def __init__(self, tokenizer: Any, *, marks: frozenset[str] = frozenset(), shows_special: bool = False) -> None:
        """`marks` are tokens that are told beside the usual ones; `shows_special` tells all of them."""
        self._tokenizer = tokenizer
        self._inside = inside_of(tokenizer)
        vocabulary = tokenizer.get_vocab()
        told = {vocabulary[mark] for mark in (OPEN, CLOSE, *marks) if mark in vocabulary}
        special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        self._silent = set() if shows_special else (special | set(tokenizer.all_special_ids)) - told
        self._known: dict[int, str] = {}
        self._known_first: dict[int, str] = {}
        self._anchor = tokenizer.encode("a", add_special_tokens=False)
        self._anchor_text = self.decoded(self._anchor)

    def of(self, ids: Sequence[int]) -> list[str]:
        """[L] texts of the tokens [L] of one reply."""
        ids = list(ids)
        spoken = [token for token in ids if token not in self._silent]
        whole = self.decoded(spoken)
        texts = [self._alone(token) for token in ids]
        if spoken:
            texts[ids.index(spoken[0])] = self._first(spoken[0])
        if "".join(texts) == whole and UNREADABLE not in whole:
            return texts
        growing = GrowingText(self)
        slow = [growing.add(token) for token in ids]
        if slow:
            slow[-1] += growing.rest()
        return slow

    def growing(self) -> "GrowingText":
        """For a reply whose tokens come one by one."""
        return GrowingText(self)

    def is_silent(self, token: int) -> bool:
        return token in self._silent

    def _alone(self, token: int) -> str:
        if token in self._silent:
            return ""
        if token not in self._known:
            text = self.decoded([*self._anchor, token])
            self._known[token] = text[len(self._anchor_text) :] if text.startswith(self._anchor_text) else UNREADABLE
        return self._known[token]

    def _first(self, token: int) -> str:
        """At the beginning: some tokenizers drop the space before the first word."""
        if token not in self._known_first:
            self._known_first[token] = self.decoded([token])
        return self._known_first[token]

    def decoded(self, ids: Sequence[int]) -> str:
        """Return tokens as the tokenizer writes them."""
        if self._inside is not None:
            return str(self._inside.decode(ids, skip_special_tokens=False))
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


class GrowingText:
    """The text of a reply, token by token: each is told as soon as its characters are whole."""

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._ids: list[int] = []
        self._from = 0  # decoding starts here, a token before what is not told yet
        self._told = 0

    def add(self, token: int) -> str:
        """Return the characters that this token completes."""
        if self._texts.is_silent(token):
            return ""
        self._ids.append(token)
        text = self._untold()
        if text.endswith(UNREADABLE) and len(self._ids) - self._told < MOST_UNTOLD:
            return ""
        self._from, self._told = self._told, len(self._ids)
        return text

    def rest(self) -> str:
        """What was never completed."""
        return self._untold() if self._told < len(self._ids) else ""

    def _untold(self) -> str:
        before = self._texts.decoded(self._ids[self._from : self._told])
        return self._texts.decoded(self._ids[self._from :])[len(before) :]


def put_together(
    texts: Sequence[str],
    *,
    logprobs: Array | None,
    top_logprobs: Sequence[Array] | None,
    opened: bool,
    stop: Sequence[str],
    finish_reason: str,
    prompt_tokens: int,
    completion_tokens: int,
    split_by: Callable[[str], ReasoningSplit] | None = None,
) -> Generation:
    """Return the reply whose tokens have these texts [L], without the token that ended it, and perhaps with a text that
    did; `logprobs` and `top_logprobs` are [L] or None. `completion_tokens` counts the ends as well. `split_by` tells
    the reasoning from the answer; by default it stands between <think> and </think>, and `opened` is as in `split`."""
    written = "".join(texts)
    whole = cut_off(written, stop) if stop else written
    kept = len(texts) if whole == written else _kept(texts, len(whole))
    parts = split_by(whole) if split_by else split(whole, opened=opened)
    if parts.answer_end is not None and parts.answer_end < len(whole):
        whole = whole[: parts.answer_end]
        kept = _kept(texts, len(whole))
    tokens = tuple(texts[:kept])
    return Generation(
        text=whole[parts.answer_at :],
        reasoning=parts.reasoning,
        tokens=tokens,
        logprobs=None if logprobs is None else logprobs[:kept],
        top_logprobs=None if top_logprobs is None else tuple(top_logprobs[:kept]),
        answer_start=answer_start(tokens, parts.answer_at),
        finish_reason=finish_reason,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )


def _kept(texts: Sequence[str], length: int) -> int:
    """How many tokens begin within so many characters, those without any after them included."""
    end = 0
    for index, text in enumerate(texts):
        if end >= length and text:
            return index
        end += len(text)
    return len(texts)
