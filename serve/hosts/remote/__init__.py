"""`host: {kind: remote}`: classifiers that another server serves."""
