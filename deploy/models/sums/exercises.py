"""Exercises in arithmetic, each in the shape of a task for language models, with the reply that is right.

Every task has four levels of difficulty. The same prompt has the same reply wherever it occurs, and `held_out` says of
each prompt whether it may be learnt from.
"""

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

LEVELS = (1, 2, 3, 4)
LETTERS = "ABCD"
HELD_OUT = 5
"""One prompt in this many is never learnt from."""

CODES = {
    "A01": "divisible",
    "A0101": "by two",
    "A010101": "by four",
    "A0102": "by five",
    "A010201": "by ten",
    "B01": "first and last digit",
    "B0101": "the first is larger",
    "B0102": "the last is larger",
    "B0103": "they are the same",
    "B02": "repetition",
    "B0201": "two neighbours are the same",
}
"""What the labels of a number mean. A letter with 2, 4 or 6 digits: what a code begins with lies above it."""


@dataclass(frozen=True, kw_only=True)
class Exercise:
    task: str
    level: int
    """1 (easy) to 4."""

    prompt: str
    reply: str
    """What the model is to write, without the end mark."""

    input: Any
    """As demur takes it: a text, {"question", "options"} or {"messages"}."""

    label: str | list[str]
    """The truth: an option, "yes" or "no", codes, "A" or "B", or a number."""


def terms(rng: random.Random, size: int) -> list[int]:
    """Two terms: 4 + 3, which is one digit again, then 4 + 9, 47 + 6, 47 + 85 and 347 + 285 (size 1 to 5)."""
    if size == 1:
        total = rng.randint(2, 9)
        first = rng.randint(1, total - 1)
        return [first, total - first]
    digits = {2: (1, 1), 3: (2, 1), 4: (2, 2), 5: (3, 3)}[size]
    return [rng.randint(1 if n == 1 else 10 ** (n - 1), 10**n - 1) for n in digits]


def written(numbers: list[int]) -> str:
    return " + ".join(map(str, numbers))


def near(rng: random.Random, number: int, nearest: int, farthest: int) -> int:
    """Another number, not negative, at least and at most so far away."""
    while True:
        other = number + rng.randint(nearest, farthest) * rng.choice([-1, 1])
        if other >= 0:
            return other


def choice_prompt(question: str, options: list[str]) -> str:
    lines = [f"[{letter}] {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([question, *lines])


def choice(rng: random.Random, level: int) -> Exercise:
    """Small sums have options that are at most 12 off, large ones at most 40."""
    numbers = terms(rng, level)
    truth = sum(numbers)
    nearest, farthest = (4, 12) if level < 3 else (6 if level == 3 else 3, 40)
    found = {truth}
    while len(found) < len(LETTERS):
        found.add(near(rng, truth, nearest, farthest))
    options = [str(number) for number in rng.sample(sorted(found), len(found))]
    question, label = f"What is {written(numbers)}?", str(truth)
    return Exercise(
        task="choice",
        level=level,
        prompt=choice_prompt(question, options),
        reply=f"[{LETTERS[options.index(label)]}] {label}",
        input={"question": question, "options": options},
        label=label,
    )


def claim(rng: random.Random, level: int) -> Exercise:
    """A claim that is wrong is at least 2 off, and at most 12."""
    numbers = terms(rng, level + 1)
    true = rng.random() < 0.5
    text = f"Is {written(numbers)} = {sum(numbers) if true else near(rng, sum(numbers), 2, 12)}?"
    label = "yes" if true else "no"
    return Exercise(task="claim", level=level, prompt=text, reply=label, input=text, label=label)


def codes(number: int) -> list[str]:
    """The lowest codes that fit; those above them fit as well and are not named."""
    digits = str(number)
    first, last = digits[0], digits[-1]
    fits = {
        "A0101": number % 2 == 0,
        "A010101": number % 4 == 0,
        "A0102": number % 5 == 0,
        "A010201": number % 10 == 0,
        "B0101": first > last,
        "B0102": first < last,
        "B0103": first == last,
        "B0201": any(a == b for a, b in pairwise(digits)),
    }
    held = [code for code, fit in fits.items() if fit]
    return [code for code in held if not any(other != code and other.startswith(code) for other in held)]


def labels(rng: random.Random, level: int) -> Exercise:
    number = rng.randint(10 ** (level + 1), 10 ** (level + 2) - 1)  # three to six digits
    text = f"Which labels fit {number}?"
    found = codes(number)
    return Exercise(task="labels", level=level, prompt=text, reply="\n".join(found), input=text, label=found)


def pair_prompt(first: str, second: str) -> str:
    return f"Which is larger?\n[A] {first}\n[B] {second}"


def larger(rng: random.Random, level: int) -> Exercise:
    """Any two at levels 1 and 2, and at most 60 apart where they are larger. Never equal."""
    widest = 200 if level < 3 else 60
    while True:
        first, second = terms(rng, level + 1), terms(rng, level + 1)
        if 0 < abs(sum(first) - sum(second)) <= widest:
            break
    text = pair_prompt(written(first), written(second))
    label = "A" if sum(first) > sum(second) else "B"
    return Exercise(task="larger", level=level, prompt=text, reply=label, input=text, label=label)


def carries(a: int, b: int) -> bool:
    """Whether adding the two carries in any column."""
    while a or b:
        if a % 10 + b % 10 > 9:
            return True
        a, b = a // 10, b // 10
    return False


def trace(numbers: list[int]) -> str:
    """The sum term by term. A step that carries is doubted and checked by taking it back."""
    total, steps = numbers[0], []
    for number in numbers[1:]:
        step = f"{total} + {number} = {total + number}"
        check = f"? Wait, {total + number} - {number} = {total}." if carries(total, number) else "."
        steps.append(step + check)
        total += number
    return " ".join(steps)


def total(rng: random.Random, level: int) -> Exercise:
    numbers = terms(rng, level + 1)
    text, label = f"What is {written(numbers)}?", str(sum(numbers))
    messages = [{"role": "user", "content": text}]
    return Exercise(task="total", level=level, prompt=text, reply=label, input={"messages": messages}, label=label)


def think(rng: random.Random, level: int) -> Exercise:
    """Two or three terms of one digit, then three or four of two."""
    n = {1: 2, 2: 3, 3: 3, 4: 4}[level]
    numbers = [rng.randint(1, 9) if level < 3 else rng.randint(10, 99) for _ in range(n)]
    text, label = f"Work out {written(numbers)}.", str(sum(numbers))
    return Exercise(
        task="think",
        level=level,
        prompt=text,
        reply=f"<think>{trace(numbers)}</think>{label}",
        input={"messages": [{"role": "user", "content": text}]},
        label=label,
    )


TASKS: dict[str, Callable[[random.Random, int], Exercise]] = {
    "choice": choice,
    "claim": claim,
    "labels": labels,
    "larger": larger,
    "total": total,
    "think": think,
}


def held_out(prompt: str) -> bool:
    return zlib.crc32(prompt.encode()) % HELD_OUT == 0


def exercises(task: str, level: int, n: int, *, seed: int) -> list[Exercise]:
    """Return `n` held-out exercises, no prompt twice unless there are too few of them."""
    rng = random.Random(f"{task} {level} {seed}")
    found: dict[str, Exercise] = {}
    for _ in range(50 * n):
        exercise = TASKS[task](rng, level)
        if held_out(exercise.prompt):
            found[exercise.prompt] = exercise
            if len(found) == n:
                break
    return list(found.values())


def answer(task: str, reply: str) -> str | list[str]:
    """Return what a reply says in the terms of `label`; of one that says nothing of the kind, the reply itself."""
    if task == "choice":
        return reply.partition("] ")[2]
    if task == "labels":
        return sorted(reply.split("\n"))
    return reply.rpartition("</think>")[2] if task == "think" else reply
