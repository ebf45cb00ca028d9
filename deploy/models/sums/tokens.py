"""The tokenizer of the sums model: one token for a digit, few for a phrase, and bytes for everything else."""

import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from deploy.models.sums.exercises import LEVELS, TASKS

SIZE = 384
START, USER, REPLY, END, PAD = "<s>", "<user>", "<reply>", "<end>", "<pad>"
THINKING = ["<think>", "</think>"]

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'user' %}<user>{{ message.content }}"
    "{% elif message.role == 'assistant' %}<reply>{{ message.content }}<end>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<reply>{% endif %}"
)
"""A conversation as the model knows it. It was taught no system messages, so they are left out."""


def trained_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """Digits, lone capitals and brackets stand alone; what is between them is merged as often as it occurs.

    Every byte is in the vocabulary, so any text comes back as it was.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d|[A-Z](?![a-z])|\n"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    rng = random.Random(seed)
    drawn = [make(rng, level) for make in TASKS.values() for level in LEVELS for _ in range(500)]
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - len(THINKING),
        special_tokens=[PAD, START, USER, REPLY, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [text for exercise in drawn for text in (exercise.prompt, exercise.reply.replace("<think>", ""))]
    tokenizer.train_from_iterator((text.replace("</think>", "") for text in texts), trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in THINKING])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
    made.chat_template = TEMPLATE
    return made
