"""Where a model comes from and what it runs on: one file for each kind of host, and what all kinds have."""
