"""Chat completions as OpenAI's clients know them."""
