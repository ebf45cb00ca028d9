"""The part of a tokenizer that does the work, without what is put around it."""

import copy
from typing import Any


def inside_of(tokenizer: Any) -> Any:
    """A copy of what does a fast tokenizer's work, with `encode` and `decode`: what transformers and vLLM put around it
    takes longer than the work itself. None where there is none, or it reads or writes a text otherwise."""
    inside: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(inside, "no_truncation"):
        return None
    copied: Any = copy.deepcopy(inside)
    copied.no_truncation()
    copied.no_padding()
    copied.encode_special_tokens = False
    texts = ("A sentence.", " One\nmore: 12,345 é , .", "".join(tokenizer.all_special_tokens))
    return copied if all(_alike(copied, tokenizer, text) for text in texts) else None


def _alike(inside: Any, tokenizer: Any, text: str) -> bool:
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    written = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return bool(
        inside.encode(text, add_special_tokens=False).ids == ids
        and inside.decode(ids, skip_special_tokens=False) == written
    )
