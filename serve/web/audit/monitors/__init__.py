"""Monitors while the service runs: the watch, its page and gauges, alarms as JSON."""
