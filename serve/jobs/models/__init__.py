"""Fits, comparisons and replays that somebody asked for over HTTP."""
