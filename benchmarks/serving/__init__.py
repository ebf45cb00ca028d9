"""demur beside the usual way of serving a model: `python -m benchmarks.serving`."""
