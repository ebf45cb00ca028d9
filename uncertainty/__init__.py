"""How unsure a model is of each prediction, and what that is worth as a probability of being right."""
