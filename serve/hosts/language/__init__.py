"""Language models that classify, choose, label and answer: engines, prompts, and what is read from replies."""
