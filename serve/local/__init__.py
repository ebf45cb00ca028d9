"""One machine: what `demur up` starts around the applications, and what clears it away again."""
