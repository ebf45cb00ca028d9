"""Graphs in ONNX's format, run by onnxruntime."""
