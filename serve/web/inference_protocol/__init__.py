"""The Open Inference Protocol, version 2, as KServe's and Triton's clients know it."""
