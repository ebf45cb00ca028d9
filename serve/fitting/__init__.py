"""Models run outside of requests: fits, comparisons and replays of artifacts."""
