"""Train the sums model, a small language model, from nothing, and write it in ordinary checkpoint format.

    python -m deploy.models.sums.train [FOLDER]       (the folder of this script by default)

Runs in less than half an hour on two cores and gives the same weights every time on the same machine. Prints how
often it is right on exercises that were held out.
"""

import math
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.progress import Progress
from torch.nn import functional
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from deploy.models.sums.exercises import LEVELS, TASKS, held_out
from deploy.models.sums.measure import measured, table
from deploy.models.sums.tokens import END, PAD, REPLY, START, USER, trained_tokenizer

ROWS = 24
ROW_TOKENS = 112
"""A row is a conversation of as many exercises as fit, so the model also knows a prompt that follows others."""

SEED = 0
THREADS = 2
LEVEL_MIX = (3, 3, 2, 2)


@dataclass(frozen=True, kw_only=True)
class Phase:
    steps: int
    learning_rate: float
    warm_up: int
    horizon: int
    """The step at which the learning rate would be nothing, on its way down along a cosine."""

    evenness: float
    """A token of a reply of n tokens counts n^-evenness: 0 for every token the same, 1 for every reply."""

    mix: dict[str, int]
    """How often each task is drawn."""

    def rate(self, step: int) -> float:
        if step < self.warm_up:
            return (step + 1) / self.warm_up
        return 0.5 + 0.5 * math.cos(math.pi * (step - self.warm_up) / (self.horizon - self.warm_up))


PHASES = (
    Phase(  # to add, which is learnt from traces
        steps=1200,
        learning_rate=3e-3,
        warm_up=50,
        horizon=2400,
        evenness=0,
        mix={"choice": 4, "claim": 4, "labels": 2, "larger": 4, "total": 3, "think": 2},
    ),
    Phase(  # to judge with it, which is one token of a short reply
        steps=3400,
        learning_rate=2e-3,
        warm_up=30,
        horizon=3400,
        evenness=0.5,
        mix={"choice": 8, "claim": 5, "labels": 8, "larger": 3, "total": 3, "think": 2},
    ),
)

CONFIG = {
    "hidden_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 5,
    "num_key_value_heads": 5,
    "intermediate_size": 448,
    "max_position_embeddings": 1024,
    "tie_word_embeddings": True,
    "initializer_range": 0.05,  # the usual 0.02 is meant for layers many times as wide
}

Row = tuple[list[int], list[float]]


def rows(tokenizer: PreTrainedTokenizerFast, phase: Phase, rng: random.Random) -> Iterator[Row]:
    """Endless rows of tokens, and what each token counts, 0 outside replies. No held-out prompt is among them."""
    start, user, reply, end, pad = (tokenizer.convert_tokens_to_ids(t) for t in (START, USER, REPLY, END, PAD))
    names, weights = list(phase.mix), list(phase.mix.values())
    waiting: tuple[list[int], list[int]] | None = None
    while True:
        tokens, counts = [start], [0.0]
        while True:
            if waiting is None:
                exercise = TASKS[rng.choices(names, weights)[0]](rng, rng.choices(LEVELS, LEVEL_MIX)[0])
                if held_out(exercise.prompt):
                    continue
                asked = [user, *tokenizer.encode(exercise.prompt), reply]
                waiting = asked, [*tokenizer.encode(exercise.reply), end]
            asked, said = waiting
            if len(tokens) + len(asked) + len(said) > ROW_TOKENS:
                break
            tokens += asked + said
            counts += [0.0] * len(asked) + [len(said) ** -phase.evenness] * len(said)
            waiting = None
        left = ROW_TOKENS - len(tokens)
        yield tokens + [pad] * left, counts + [0.0] * left


def untaught(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(SEED)
    config = LlamaConfig(
        **CONFIG,
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def teach(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, phase: Phase, seed: int) -> None:
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=phase.learning_rate, weight_decay=0.1, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, phase.rate)
    source = rows(tokenizer, phase, random.Random(seed))
    with Progress() as bar:
        task = bar.add_task("training", total=phase.steps)
        for _ in range(phase.steps):
            drawn = [next(source) for _ in range(ROWS)]
            tokens = torch.tensor([row for row, _ in drawn])
            counts = torch.tensor([count for _, count in drawn])[:, 1:]
            learnt = counts > 0
            hidden = model.model(input_ids=tokens[:, :-1]).last_hidden_state
            each = functional.cross_entropy(model.lm_head(hidden[learnt]), tokens[:, 1:][learnt], reduction="none")
            loss = (each * counts[learnt]).sum() / counts.sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            bar.update(task, advance=1, description=f"training, loss {loss.item():.3f}")
    model.eval()


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the weights in half precision, the tokenizer and the settings for greedy decoding."""
    model.half()
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        do_sample=False,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(folder: Path) -> None:
    torch.set_num_threads(THREADS)
    tokenizer = trained_tokenizer(SEED)
    started = time.monotonic()
    model = untaught(tokenizer)
    for number, phase in enumerate(PHASES):
        teach(model, tokenizer, phase, SEED + number)
    size = sum(p.numel() for p in model.parameters())
    print(f"trained {size:,} parameters in {time.monotonic() - started:.0f} s")
    save(model, tokenizer, folder)
    print(table(measured(model.float(), tokenizer, n=500)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
