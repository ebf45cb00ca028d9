"""What a running service tells of itself: counters and timers, logs, traces."""
