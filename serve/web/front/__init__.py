"""The pages at the root: where things stand, trying a model, what is decided now, and the artifacts of each model."""
