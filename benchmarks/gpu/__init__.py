"""What a GPU brings, measured by one command: `python -m benchmarks.gpu`."""
