"""Classifiers of the transformers library."""
