"""Labels found by typing, among hundreds of thousands: by how they begin, by their words, and by words like them."""

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from heapq import merge
from itertools import pairwise
from threading import Lock
from typing import Any, Literal, TypeVar
from unicodedata import category, combining, normalize

import numpy as np
from numpy.typing import NDArray

from demur.serve.config.label_table import LONGEST_LABEL, LabelTable

Places = NDArray[np.int32]
"""Where labels stand in their file, or words in the vocabulary."""

Match = Literal["begins", "words", "similar"]

T = TypeVar("T")

PART = 20_000
"""Texts that are sorted at once."""

MOST_FOUND = 50

ENOUGH = 5
"""Where so many labels have the words of a search, none with similar words are looked for."""

MOST_WORDS = 8
"""Words of a search that are looked at; the others, if somebody pastes a sentence, are left out."""

LONGEST_COMPARED = 30
"""Letters of a word that are compared with those of others."""

COMPARED, SIMILAR = 120, 20
"""Words that are compared letter by letter for one search, and those that are taken at most for one word of it."""

ALIKE = 0.7
"""From which likeness on, 0 to 1, a word counts as similar."""

END = "\U0010ffff"
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
"""A word, or one character of a script that has no blanks between words."""


@dataclass(frozen=True, kw_only=True)
class FoundLabel:
    """A label that was found."""

    label: str
    title: str
    match: Match
    """It, or its title, begins so; its words begin with those of the search; or they are like them."""


class LabelSearch:
    """An index over the labels of one table and their titles. It is built once, takes 150 to 350 bytes for each label,
    and is only read after that, so threads share it."""

    def __init__(self, table: LabelTable) -> None:
        self._names, self._titles = table.names, table.titles
        self.first_characters = frozenset(name[:1] for name in table.names)
        texts = [folded(self._text(at)) for at in range(len(table.names))]
        self._order: Places = np.array(_in_order(range(len(texts)), texts.__getitem__), dtype=np.int32)
        self._lengths = np.array([len(text) for text in texts], dtype=np.int32)
        numbers: dict[str, int] = {}
        of_label, of_word = array("i"), array("i")
        for at, text in enumerate(texts):
            found = {numbers.setdefault(word, len(numbers)) for word in WORD.findall(text)}
            of_word.extend(found)
            of_label.extend([at] * len(found))
        self._words = _in_order(list(numbers), str)
        ranks = np.empty(len(numbers), dtype=np.int32)
        ranks[[numbers[word] for word in self._words]] = np.arange(len(numbers), dtype=np.int32)
        self._starts, self._labels = _by_key(ranks[np.asarray(of_word)], np.asarray(of_label), len(numbers))
        self._pairs = _LetterPairs(self._words)

    def find(self, query: str, limit: int = 20) -> tuple[list[FoundLabel], bool]:
        """Return the labels that fit best, at most `limit`, and whether there are more.

        First come those that begin so, then those in which every word of the search begins a word, then those with
        similar words. Case, accents and characters that nobody sees make no difference. Of a long query the first 200
        characters count.
        """
        limit = max(1, min(limit, MOST_FOUND))
        text = folded(query[:LONGEST_LABEL])
        words = list(dict.fromkeys(WORD.findall(text)))[:MOST_WORDS]
        found: dict[int, Match] = {}
        for match, places in self._tiers(text, words, limit + 1):
            for at in places:
                found.setdefault(at, match)
            if len(found) > limit or (match == "words" and len(found) >= ENOUGH):
                break
        told = [
            FoundLabel(label=self._names[at], title=self._titles[at] if self._titles else "", match=match)
            for at, match in list(found.items())[:limit]
        ]
        return told, len(found) > limit

    def _tiers(self, text: str, words: Sequence[str], most: int) -> Iterator[tuple[Match, list[int]]]:
        if not text:
            return
        yield "begins", self._beginning(text, most)
        if words:
            # twice as many: some of them have been found already
            yield "words", self._with_words(words, 2 * most)
            yield "similar", self._like(words, 2 * most)

    def _text(self, at: int) -> str:
        return f"{self._names[at]} {self._titles[at]}" if self._titles else self._names[at]

    def _beginning(self, text: str, most: int) -> list[int]:
        def text_at(at: int) -> str:
            return folded(self._text(at))

        order: Any = self._order
        first = bisect_left(order, text, key=text_at)
        last = bisect_left(order, text + END, lo=first, key=text_at)
        found: list[int] = self._order[first : min(last, first + most)].tolist()
        return found

    def _with_words(self, words: Sequence[str], most: int) -> list[int]:
        """Labels in which every word begins a word, the shortest first."""
        holds = np.ones(len(self._names), dtype=bool)
        for word in words:
            has = np.zeros(len(self._names), dtype=bool)
            has[self._beginning_with(word)] = True
            holds &= has
        held = np.flatnonzero(holds).astype(np.int32)
        return self._first(held, self._lengths[held], most)

    def _beginning_with(self, word: str) -> Places:
        """The labels with a word that begins so, some of them more than once."""
        first = bisect_left(self._words, word)
        return self._labels[self._starts[first] : self._starts[bisect_left(self._words, word + END, lo=first)]]

    def _like(self, words: Sequence[str], most: int) -> list[int]:
        """Labels with words like these, the most similar first: on average they are as similar as `ALIKE`."""
        total = np.zeros(len(self._names), dtype=np.float32)
        for word in words:
            best = np.zeros(len(self._names), dtype=np.float32)
            for at, likeness in self._pairs.like(word, COMPARED // len(words)):
                best[self._labels[self._starts[at] : self._starts[at + 1]]] = likeness
            best[self._beginning_with(word)] = 1
            total += best
        held = np.flatnonzero(total >= ALIKE * len(words)).astype(np.int32)
        return self._first(held, self._lengths[held] - 1000 * total[held], most)

    @staticmethod
    def _first(places: Places, rank: NDArray[Any], most: int) -> list[int]:
        """The places of the lowest ranks; of equal ranks the first in the file."""
        if len(places) > most:
            near = rank <= np.partition(rank, most - 1)[most - 1]
            places, rank = places[near], rank[near]
        found: list[int] = places[np.argsort(rank, kind="stable")[:most]].tolist()
        return found


class _LetterPairs:
    """Which words have which pairs of letters: so words like a word are found without looking at all."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        letters = np.frombuffer(f" {' '.join(word[:LONGEST_COMPARED] for word in words)} ".encode("utf-32-le"), "<u4")
        alphabet, letters = np.unique(letters, return_inverse=True)
        self._alphabet = {chr(letter): at for at, letter in enumerate(alphabet.tolist())}
        of_word = np.cumsum(letters == self._alphabet[" "], dtype=np.int32)[:-1] - 1
        pairs = letters[:-1] * len(alphabet) + letters[1:]
        self._pairs, numbers = np.unique(pairs[:-1] if not words else pairs, return_inverse=True)
        self._starts, self._places = _by_key(numbers, of_word[: len(numbers)], len(self._pairs))
        self._sizes = np.array([min(len(word), LONGEST_COMPARED) + 1 for word in words], dtype=np.int32)

    def like(self, word: str, most: int) -> list[tuple[int, float]]:
        """Return words like this one with their likeness, 0 to 1, from the least to the most similar. At most `most`
        are compared: those that share most pairs of letters."""
        word = word[:LONGEST_COMPARED]
        if len(word) < 3 or not self._words:
            return []
        padded = f" {word} "
        letters = [self._alphabet.get(letter, -1) for letter in padded]
        wanted = {a * len(self._alphabet) + b for a, b in pairwise(letters) if a >= 0 and b >= 0}
        at = np.searchsorted(self._pairs, sorted(wanted))
        known = [place for place, pair in zip(at.tolist(), sorted(wanted), strict=True) if self._is(place, pair)]
        if not known:
            return []
        places = np.concatenate([self._places[self._starts[place] : self._starts[place + 1]] for place in known])
        shared = np.bincount(places, minlength=len(self._words))
        near = np.flatnonzero(shared > len(padded) // 4)  # one slip spares more pairs than that
        likely = shared[near] / (self._sizes[near] + len(padded) - 1)
        if len(near) > most:
            near = near[np.argpartition(-likely, most)[:most]]
        matcher = SequenceMatcher(None, "", word, autojunk=False)
        found = []
        for number in near.tolist():
            matcher.set_seq1(self._words[number][:LONGEST_COMPARED])
            if (likeness := matcher.ratio()) >= ALIKE:
                found.append((number, min(likeness, 0.99)))
        return sorted(found, key=lambda one: one[1])[-SIMILAR:]

    def _is(self, place: int, pair: int) -> bool:
        return place < len(self._pairs) and int(self._pairs[place]) == pair


def _by_key(keys: NDArray[Any], values: NDArray[Any], n_keys: int) -> tuple[NDArray[np.int64], Places]:
    """Return `values` in the order of their keys, and where those of each key begin, [n_keys + 1]."""
    starts = np.zeros(n_keys + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=n_keys), out=starts[1:])
    return starts, values[np.argsort(keys, kind="stable")].astype(np.int32)


def _in_order(values: Sequence[T], key: Callable[[T], str]) -> list[T]:
    """Sort in parts, so that other threads have their turn: one sort of a million texts would keep them waiting."""
    parts = [sorted(values[start : start + PART], key=key) for start in range(0, len(values), PART)]
    return list(merge(*parts, key=key))


def folded(text: str) -> str:
    """A text as it is compared: without case, accents, forms of one letter, and characters that nobody sees."""
    if text.isascii():
        return text.lower().strip()
    parts = normalize("NFKD", text)
    return "".join(one for one in parts if not combining(one) and category(one) != "Cf").casefold().strip()


_BUILDING = Lock()


def search_of(table: LabelTable) -> LabelSearch:
    """Return the index over a table. It is built at the first call, which takes some seconds for very many labels, and
    is shared by all models and threads of a process."""
    with _BUILDING:
        return _built(table)


@lru_cache(maxsize=16)
def _built(table: LabelTable) -> LabelSearch:
    return LabelSearch(table)
