"""Say how often the sums model is right, by task and level, on exercises that it was never taught.

    python -m deploy.models.sums.measure [FOLDER] [N]       (this folder, 500 exercises per task and level by default)

Greedy decoding. A list of labels is right when it is the whole list and nothing else.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from deploy.models.sums.exercises import LEVELS, TASKS, Exercise, answer, exercises

LONGEST_REPLY = 128
BATCH = 250
SEED = 1


@dataclass(frozen=True, kw_only=True)
class Line:
    task: str
    level: int
    n: int
    right: float
    """Share of right answers, in [0, 1]."""

    words: float
    questions: float
    waits: float
    """Means over the replies: words, question marks and "Wait"."""


def loaded(folder: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Return the model, in float32 for the CPU, and its tokenizer."""
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, PreTrainedTokenizerFast.from_pretrained(folder)


def replies(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: list[str]) -> list[str]:
    """Return the greedy reply to each prompt, in a conversation of its own."""
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": p}], tokenize=False, add_generation_prompt=True)
        for p in prompts
    ]
    found: list[str] = []
    for start in range(0, len(texts), BATCH):
        batch = tokenizer(
            texts[start : start + BATCH],
            return_tensors="pt",
            padding=True,
            padding_side="left",
            add_special_tokens=False,
            return_token_type_ids=False,
        )
        with torch.inference_mode():
            tokens = model.generate(**batch, do_sample=False, max_new_tokens=LONGEST_REPLY)
        found += tokenizer.batch_decode(tokens[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return found


def right(exercise: Exercise, reply: str) -> bool:
    said = answer(exercise.task, reply)
    return said == (sorted(exercise.label) if isinstance(exercise.label, list) else exercise.label)


def measured(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    *,
    n: int,
    seed: int = SEED,
    tasks: Sequence[str] = tuple(TASKS),
) -> list[Line]:
    """Return one line for each task and level, of `n` exercises where there are so many."""
    lines = []
    for task in tasks:
        for level in LEVELS:
            todo = exercises(task, level, n, seed=seed)
            said = replies(model, tokenizer, [exercise.prompt for exercise in todo])
            lines.append(
                Line(
                    task=task,
                    level=level,
                    n=len(todo),
                    right=sum(map(right, todo, said)) / len(todo),
                    words=sum(len(reply.split()) for reply in said) / len(todo),
                    questions=sum(reply.count("?") for reply in said) / len(todo),
                    waits=sum(reply.count("Wait") for reply in said) / len(todo),
                )
            )
    return lines


def table(lines: list[Line]) -> str:
    """Markdown: a row for each task, a column for each level and for the mean of the levels."""
    rows = ["| task | " + " | ".join(f"level {level}" for level in LEVELS) + " | all |", "|---" * 6 + "|"]
    for task in TASKS:
        shares = [line.right for line in lines if line.task == task]
        rows.append(f"| {task} | " + " | ".join(f"{s:.1%}" for s in [*shares, sum(shares) / len(shares)]) + " |")
    for what in ("words", "questions", "waits"):
        means = [getattr(line, what) for line in lines if line.task == "think"]
        rows.append(f"| think: {what} | " + " | ".join(f"{m:.1f}" for m in [*means, sum(means) / len(means)]) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    print(table(measured(*loaded(folder), n=int(sys.argv[2]) if len(sys.argv) > 2 else 500)))
