"""How a language model is asked: Jinja templates in files, rendered to messages, and the fingerprint of them all."""

from serve.config import ModelConfig


def prompt_fingerprint(model: ModelConfig) -> str:
    """SHA-256 over everything that settles what the model is asked, and how its reply is read."""
    raise NotImplementedError
