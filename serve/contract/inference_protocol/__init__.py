"""Tensors and messages of the Open Inference Protocol, for those who serve it and those who ask."""
