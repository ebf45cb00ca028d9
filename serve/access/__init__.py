"""Who gets in, and what they may do there."""
